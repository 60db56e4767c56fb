// The API, read from its own description: what is sent and what comes back.

import { byId, make } from "./dom.js";

const shown = (value) => JSON.stringify(value, null, 2);

function operation(path, method, told) {
  const parts = [make("h2", {}, make("span", {}, method.toUpperCase()), path), make("p", { class: "soft" }, told.summary)];
  for (const one of told.parameters || []) {
    parts.push(make("p", {}, make("code", {}, one.name), make("span", { class: "soft" }, ` – ${one.description || ""}`)));
  }
  const kinds = told.requestBody?.content || {};
  for (const [name, example] of Object.entries(kinds["application/json"]?.examples || {})) {
    parts.push(make("h3", {}, `Send: ${name}`), make("pre", { tabindex: "0" }, curl(path, method, example.value)));
  }
  const others = Object.keys(kinds).filter((kind) => kind !== "application/json");
  if (others.length) parts.push(make("h3", {}, `Also: ${others.join(", ")}`));
  const answer = Object.values(told.responses)[0]?.content?.["application/json"]?.example;
  if (answer) parts.push(make("h3", {}, "Comes back"), make("pre", { tabindex: "0" }, shown(answer)));
  return make("section", { class: "sheet" }, parts);
}

const curl = (path, method, body) =>
  `curl ${location.origin}${path} -X ${method.toUpperCase()} \\\n  -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'`;

const told = await (await fetch("/openapi.json")).json();
byId("manual").append(
  make("p", { class: "soft" }, told.info.description.replaceAll("`", "")),
  make("section", { class: "sheet" }, make("h2", {}, make("span", {}, "PICTURE"), "/search"), make("p", { class: "soft" }, "The nearest items of a picture file"),
    make("pre", { tabindex: "0" }, `curl '${location.origin}/search?k=10' \\\n  -H 'content-type: image/jpeg' --data-binary @query.jpg`)),
  ...Object.entries(told.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => operation(path, method, one))));
