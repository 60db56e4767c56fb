// Filters from the index's own metadata: values with counts, numbers with a histogram.

import { byId, count, draw, make, short } from "./dom.js";

const FEW = 8;

export function showFilters(facets, state, change) {
  const place = byId("facets");
  const used = Object.values(state.values).some((some) => some.length) || Object.keys(state.ranges).length || state.where;
  byId("clear").hidden = !used;
  byId("filters").hidden = !facets.length;
  const shown = facets.map((facet) => (facet.kind === "range" ? range(facet, state, change) : values(facet, state, change)));
  place.replaceChildren(...shown, facets.length ? own(state, change) : "");
}

function values(facet, state, change) {
  const chosen = new Set(state.values[facet.column] || []);
  const list = make("ul", { class: "chips", role: "list" });
  const wide = facet.values.length <= FEW + 2;
  const show = (all) => {
    const some = facet.values.filter((one, at) => all || at < FEW || chosen.has(String(one.value)));
    list.replaceChildren(...some.map((one) => pill(facet, one, chosen, state, change)),
      all || wide ? "" : make("li", {}, make("button", { type: "button", class: "quiet", onclick: () => show(true) }, `${facet.values.length - FEW} more`)));
  };
  show(wide);
  return make("fieldset", {}, make("legend", {}, facet.column), list);
}

function pill(facet, one, chosen, state, change) {
  const value = String(one.value);
  const on = chosen.has(value);
  const press = () => {
    const next = new Set(chosen);
    if (on) next.delete(value); else next.add(value);
    change({ values: { ...state.values, [facet.column]: [...next] } });
  };
  return make("li", {}, make("button", { type: "button", class: "pill", "aria-pressed": String(on), onclick: press },
    value, make("small", {}, count(one.count))));
}

function range(facet, state, change) {
  const [low, high] = state.ranges[facet.column] || [facet.low, facet.high];
  const step = facet.whole ? 1 : (facet.high - facet.low) / 200 || 1;
  const out = make("output", {}, `${short(low)} – ${short(high)}`);
  const side = (value, name) => make("input", { type: "range", min: facet.low, max: facet.high, step: facet.whole ? 1 : "any", value, "aria-label": `${facet.column}, ${name}` });
  const [from, to] = [side(low, "from"), side(high, "to")];
  const now = () => [Math.min(from.value, to.value), Math.max(from.value, to.value)].map((value) => (facet.whole ? Math.round(value) : Number(value.toPrecision(6))));
  const picture = histogram(facet);
  const tell = () => { const [a, b] = now(); out.textContent = `${short(a)} – ${short(b)}`; shade(picture, facet, a, b); };
  const take = () => {
    const [a, b] = now();
    const ranges = { ...state.ranges };
    if (a <= facet.low + step / 2 && b >= facet.high - step / 2) delete ranges[facet.column]; else ranges[facet.column] = [a, b];
    change({ ranges });
  };
  for (const input of [from, to]) { input.addEventListener("input", tell); input.addEventListener("change", take); }
  shade(picture, facet, low, high);
  return make("fieldset", { class: "range" }, make("legend", {}, facet.column, " ", out), picture, make("div", { class: "ends" }, from, to));
}

function histogram(facet) {
  const top = Math.max(...facet.counts, 1);
  const bars = facet.counts.map((number, at) => draw("rect", { x: at * 10, width: 8.4, y: 40 - 40 * number / top, height: 40 * number / top, rx: 1 }));
  return draw("svg", { viewBox: `0 0 ${facet.counts.length * 10} 40`, class: "histogram", preserveAspectRatio: "none", "aria-hidden": "true" }, bars);
}

function shade(picture, facet, low, high) {
  const bars = [...picture.children];
  const wide = (facet.high - facet.low || 1) / bars.length;
  bars.forEach((bar, at) => {
    const start = facet.low + at * wide;
    bar.classList.toggle("out", start + wide < low || start > high);
  });
}

function own(state, change) {
  const input = make("input", { type: "text", value: state.where, placeholder: 'label = "cat" and year > 2020', spellcheck: "false", autocomplete: "off", id: "where",
    onchange: () => change({ where: input.value }) });
  return make("label", { class: "condition" }, make("span", {}, "Condition"), input);
}
