// The tab with the index: sizes, use of codewords, error, growth by save, model card.

import { ask } from "./api.js";
import { byId, bytes, count, draw, make, short } from "./dom.js";

export async function showAbout(name) {
  const place = byId("view-index");
  const told = await ask(`/indexes/${encodeURIComponent(name)}`);
  place.replaceChildren(
    make("h1", {}, told.name),
    make("ul", { class: "figures", role: "list" },
      figure(count(told.items), "items"),
      figure(`${told.bits}`, "bits a code"),
      figure(short(told.bytes_an_item), "bytes an item", told.refiner ? `${short(told.bits / 8)} of the code, the rest is ${told.refiner === "code" ? "a longer code" : "half-precision floats"} to re-rank by` : "the code alone"),
      figure(bytes(told.bytes_on_disk), "on disk"),
      figure(told.kind, "index", told.lists ? `${count(told.lists)} lists, ${told.probe} looked into` : "every code is looked at"),
      figure(`${told.version}`, told.version === 1 ? "save" : "saves")),
    error(told), codewords(told), lists(told), growth(told), model(told));
}

function figure(value, name, more) {
  return make("li", {}, make("b", {}, value), make("span", {}, name), more ? make("small", {}, more) : null);
}

function section(title, words, ...children) {
  return make("section", { class: "sheet" }, make("h2", {}, title), words ? make("p", { class: "soft" }, words) : null, ...children);
}

function error(told) {
  const figures = told.model && told.model.figures;
  const value = told.relative_error ?? (figures && figures.relative_error);
  if (value === null || value === undefined) return "";
  const kept = Math.max(0, Math.min(1, 1 - value));
  const inner = make("i");
  inner.style.setProperty("--share", kept);
  const source = told.relative_error === null ? "on the model's own data" : "measured on embeddings this index keeps";
  return section("Error", `Codes keep ${(100 * kept).toFixed(1)} % of the variance of the embeddings; relative error ${short(value)}, ${source}.`,
    make("span", { class: "track thick", role: "img", "aria-label": `${(100 * kept).toFixed(0)} % kept` }, inner));
}

function codewords(told) {
  const every = told.codebook_size;
  const shown = told.codewords.slice(0, 64).map((use, at) => make("li", {},
    bars(use.counts, Math.min(every, 256), `Codebook ${at + 1}: ${use.used} of ${every} codewords used`),
    make("b", {}, `Codebook ${at + 1}`),
    make("small", {}, `${count(use.used)} of ${count(every)} used, worth ${short(use.perplexity)}`)));
  return section("Use of codewords", `How often each of the ${count(every)} codewords of a codebook is used, the most used first. "Worth" is how many codewords would say as much if all were used alike.`,
    make("ul", { class: "books", role: "list" }, shown));
}

function bars(counts, wide, label) {
  const top = Math.max(...counts, 1);
  const step = 256 / wide;
  const shape = counts.slice(0, wide).map((number, at) => `${at ? "L" : "M"}${(at * step).toFixed(2)} ${(60 - 58 * number / top).toFixed(2)}H${((at + 1) * step).toFixed(2)}`).join("");
  return draw("svg", { viewBox: "0 0 256 60", class: "chart", preserveAspectRatio: "none", role: "img", "aria-label": label },
    draw("path", { d: `${shape}V60H0Z`, class: "area" }));
}

function lists(told) {
  if (!told.lists_filled) return "";
  const { counts, empty } = told.lists_filled;
  return section("Lists", `${count(told.lists)} lists, the fullest first (${count(counts[0] || 0)} items); ${empty ? `${count(empty)} are` : "none is"} empty.`,
    make("div", { class: "wide" }, bars(counts, counts.length, "Items of each list")));
}

function growth(told) {
  const saves = told.growth;
  if (!saves.length) return "";
  let sum = 0;
  const steps = saves.map((save) => { sum += save.items; return { ...save, sum }; });
  const rows = steps.map((step) => make("tr", {}, make("td", {}, `save ${step.save}`), make("td", {}, new Date(step.at).toLocaleString()), make("td", {}, `+ ${count(step.items)}`), make("td", {}, count(step.sum))));
  const path = steps.map((step, at) => `${at ? "L" : "M"}${(256 * at / steps.length).toFixed(1)} ${(60 - 56 * step.sum / sum).toFixed(1)}H${(256 * (at + 1) / steps.length).toFixed(1)}`).join("");
  return section("Growth by save", `${count(sum)} items came in ${count(saves.length)} ${saves.length === 1 ? "part" : "parts"} that still lie apart.`,
    make("div", { class: "wide" }, draw("svg", { viewBox: "0 0 256 60", class: "chart", preserveAspectRatio: "none", role: "img", "aria-label": "Items after each save" }, draw("path", { d: `${path}V60H0Z`, class: "area" }))),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ["Save", "When", "Added", "Items"].map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, rows.slice(-12)))));
}

const NAMES = { code_map: "MAP of codes", float_map: "MAP of floats", relative_error: "relative error", weights: "weights", trained_on: "trained on" };

function model(told) {
  if (!told.model) return section("Model", "This index knows no model: it is searched by items and vectors.");
  const { figures = {}, ...rest } = told.model;
  const pairs = [...Object.entries(rest), ...Object.entries(figures)];
  const cell = (value) => (typeof value === "number" ? (Number.isInteger(value) ? count(value) : short(value)) : typeof value === "object" ? JSON.stringify(value) : String(value));
  return section("Model card", null, make("dl", { class: "known" },
    pairs.flatMap(([name, value]) => [make("dt", {}, NAMES[name] || name.replaceAll("_", " ")), make("dd", {}, cell(value))])));
}
