// How is searched: k, exact or by lists, re-ranking, floats, and the class counted.

import { byId, count, make } from "./dom.js";

function field(label, ...inputs) {
  return make("label", { class: "field" }, make("span", {}, label), ...inputs);
}

function toggle(label, hint, checked, change) {
  const input = make("input", { type: "checkbox", checked, onchange: () => change(input.checked) });
  return make("label", { class: "switch", title: hint }, make("span", {}, label), input);
}

export function showControls(index, state, labels, change) {
  const parts = [];
  const k = make("input", { type: "number", min: 1, max: 500, value: state.k, inputmode: "numeric", id: "k" });
  let typing;
  k.addEventListener("input", () => {
    clearTimeout(typing);
    const value = Math.min(500, Math.max(1, Number.parseInt(k.value, 10) || 0));
    if (Number.parseInt(k.value, 10) >= 1) typing = setTimeout(() => change({ k: value }, true), 200);
  });
  parts.push(field("Results, k", k));
  if (index.lists) parts.push(lists(index, state, change));
  if (index.reranks) parts.push(toggle("Re-rank", "Compare the best again by what is kept beside the codes", state.rerank, (on) => change({ rerank: on })));
  if (index.floats) parts.push(toggle("Codes beside floats", "Two rows: ranked by codes, and by the embeddings themselves", state.floats, (on) => change({ floats: on })));
  if (labels.length && (state.image || state.as)) {
    const select = make("select", { onchange: () => change({ as: select.value || null }, true) },
      make("option", { value: "" }, "—"),
      labels.map((label) => make("option", { value: label, selected: label === state.as }, label)));
    parts.push(field("It shows a", select));
  }
  byId("fields").replaceChildren(...parts);
}

function lists(index, state, change) {
  const steps = [];
  for (let probe = 1; probe < index.lists; probe *= 2) steps.push(probe);
  steps.push(index.lists);
  const now = state.probe === "all" ? index.lists : state.probe ?? index.probe;
  let at = steps.findIndex((probe) => probe >= now);
  if (at < 0) at = steps.length - 1;
  const words = (probe) => (probe >= index.lists ? `all ${count(index.lists)} lists: exact` : `${count(probe)} of ${count(index.lists)} lists`);
  const out = make("output", {}, words(now));
  const slider = make("input", { type: "range", min: 0, max: steps.length - 1, step: 1, value: at, "aria-valuetext": words(now),
    oninput: () => { out.textContent = words(steps[slider.value]); slider.setAttribute("aria-valuetext", out.textContent); },
    onchange: () => { const probe = steps[slider.value]; change({ probe: probe >= index.lists ? "all" : probe }); } });
  const exact = make("input", { type: "radio", name: "mode", checked: now >= index.lists, onchange: () => change({ probe: "all" }) });
  const some = make("input", { type: "radio", name: "mode", checked: now < index.lists, onchange: () => change({ probe: null }) });
  return make("div", { class: "lists" },
    make("div", { class: "segments", role: "radiogroup", "aria-label": "Which items are looked at" },
      make("label", {}, exact, make("span", {}, "Exact")), make("label", {}, some, make("span", {}, "Lists"))),
    make("label", { class: "field wide" }, make("span", { class: "unseen" }, "Lists to look into"), slider, out));
}
