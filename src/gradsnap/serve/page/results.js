// The nearest items: a grid that goes on, or two rows where codes stand beside floats.

import { byId, count, make, milliseconds, short } from "./dom.js";
import { lastPart, text, tile } from "./tiles.js";

export const labelOf = (item) => (item.metadata ? item.metadata.label : undefined);

// A card: the picture, what it is, how far it is. `link` says where a click leads.
export function card(item, { index, link, farthest, as, badge, onDetails }) {
  const label = labelOf(item);
  const wrong = as !== null && as !== undefined && label !== undefined && text(label) !== as;
  const name = make("span", { class: "id", title: String(item.id) }, lastPart(item.id));
  const shown = make("li", { class: "card" },
    make("a", { class: "face", href: link(item), "data-id": String(item.id) },
      tile(item, index),
      badge ? make("span", { class: `badge ${badge.kind}` }, badge.text) : null),
    make("div", { class: "words" },
      label === undefined ? name : make("span", { class: wrong ? "label wrong" : "label", title: String(item.id) }, wrong ? `≠ ${text(label)}` : text(label)),
      make("button", { type: "button", class: "say", title: "What the code says", "aria-label": `What the code of ${item.id} says`, onclick: () => onDetails(item) }, "⋯")),
    item.distance === undefined ? null : bar(item.distance, farthest),
    label === undefined ? null : name);
  if (wrong) shown.classList.add("other");
  return shown;
}

function bar(distance, farthest) {
  const inner = make("i");
  inner.style.setProperty("--share", farthest > 0 ? Math.min(1, distance / farthest) : 0);
  return make("span", { class: "far" }, make("span", { class: "track", "aria-hidden": "true" }, inner),
    make("span", { class: "number" }, make("span", { class: "unseen" }, "distance "), short(distance)));
}

export class Grid {
  constructor(place, options) {
    this.options = options;
    this.list = make("ul", { class: "grid", role: "list" });
    this.seen = new Set();
    this.items = [];
    place.replaceChildren(this.list);
  }

  add(items) {
    const fresh = items.filter((item) => !this.seen.has(item.id));
    for (const item of fresh) this.seen.add(item.id);
    this.items.push(...fresh);
    const farthest = this.options.farthest ?? Math.max(...this.items.map((item) => item.distance ?? 0), 0);
    this.options.farthest ??= farthest;
    this.list.append(...fresh.map((item) => card(item, this.options)));
    return fresh.length;
  }
}

// Two rows, and which items stand in one of them only.
export function compare(place, codes, floats, options) {
  const ranks = (row) => new Map(row.map((item, at) => [item.id, at]));
  const [byCodes, byFloats] = [ranks(codes), ranks(floats)];
  const both = codes.filter((item) => byFloats.has(item.id)).length;
  const row = (title, words, items, others) => {
    const farthest = Math.max(...items.map((item) => item.distance), 0);
    const cards = items.map((item, at) => {
      const there = others.get(item.id);
      const badge = there === undefined ? { kind: "only", text: "only here" }
        : there === at ? null : { kind: "moved", text: there > at ? `↑ ${there - at}` : `↓ ${at - there}` };
      const made = card(item, { ...options, farthest, badge });
      if (there === undefined) made.classList.add("alone");
      return made;
    });
    return make("section", { class: "row" },
      make("h2", {}, title, make("small", {}, words)),
      make("ul", { class: "strip", role: "list", tabindex: "0", "aria-label": title }, cards));
  };
  place.replaceChildren(
    row("By codes", options.codeWords, codes, byFloats),
    row("By floats", options.floatWords, floats, byCodes));
  return both;
}

export function precision(items, as, k) {
  const first = items.slice(0, k);
  if (as === null || as === undefined || !first.length) return null;
  return first.filter((item) => text(labelOf(item)) === as).length / first.length;
}

export function status(parts) {
  byId("status").replaceChildren(...parts.filter(Boolean));
}

export const chip = (name, value, title) =>
  make("span", { class: "chip", title }, make("b", {}, value), ` ${name}`);

export function times(answer) {
  const own = answer.milliseconds;
  return [
    own.embedding === undefined ? null : chip("embedding", milliseconds(own.embedding), "Time of the network"),
    chip("search", milliseconds(own.search), `Time of the search${answer.together > 1 ? `, of ${answer.together} queries together` : ""}`),
  ];
}

export const headline = (shown, items) =>
  make("strong", { class: "headline" }, `${count(shown)} nearest of ${count(items)}`);

// Arrow keys go through the grid by what is seen: rows are as wide as the window.
export function moveFocus(key) {
  const faces = [...document.querySelectorAll("#results .face")];
  if (!faces.length) return false;
  const at = faces.indexOf(document.activeElement);
  if (at < 0) { faces[0].focus(); return true; }
  const { left, top } = faces[at].getBoundingClientRect();
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  let next = at + (step ?? 0);
  if (step === undefined) {
    const down = key === "ArrowDown";
    const rows = faces.map((face, place) => ({ place, box: face.getBoundingClientRect() }))
      .filter(({ box }) => (down ? box.top > top + 4 : box.top < top - 4));
    if (!rows.length) return false;
    const nearest = down ? Math.min(...rows.map(({ box }) => box.top)) : Math.max(...rows.map(({ box }) => box.top));
    next = rows.filter(({ box }) => Math.abs(box.top - nearest) < 4)
      .sort((one, other) => Math.abs(one.box.left - left) - Math.abs(other.box.left - left))[0].place;
  }
  if (!faces[next]) return false;
  faces[next].focus();
  return true;
}
