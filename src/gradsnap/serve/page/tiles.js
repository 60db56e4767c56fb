// The picture of an item, or a quiet tile where it has none.

import { make, short } from "./dom.js";

export function tile(item, index, size = 256, lazy = true) {
  const words = alt(item);
  if (!item.thumbnail) return blank(item, words);
  const image = make("img", {
    alt: words, loading: lazy ? "lazy" : "eager", decoding: "async",
    src: `${item.thumbnail}&size=${size}`,
    onerror: () => image.replaceWith(blank(item, words)),
  });
  return image;
}

function blank(item, words) {
  const shown = make("span", { class: "blank", role: "img", "aria-label": words }, lastPart(item.id));
  let hash = 7;
  for (const letter of String(item.id)) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  shown.style.setProperty("--hue", hash % 360);
  return shown;
}

export const lastPart = (id) => String(id).split("/").pop();

export function alt(item) {
  const label = item.metadata && item.metadata.label;
  return label ? `${text(label)}, ${item.id}` : String(item.id);
}

export function text(value) {
  if (Array.isArray(value)) return value.map(text).join(", ");
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : short(value);
  if (value && typeof value === "object") return JSON.stringify(value);
  return String(value);
}
