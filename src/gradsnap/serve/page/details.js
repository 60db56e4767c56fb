// What the code says: its numbers, and each codeword's share of the distance.

import { ask, post } from "./api.js";
import { byId, draw, make, short } from "./dom.js";
import { text, tile } from "./tiles.js";

export async function showDetails(item, { index, query, link }) {
  const dialog = byId("details");
  const close = make("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "×");
  const codes = make("div", { class: "code", "aria-busy": "true" });
  const known = make("dl", { class: "known" });
  const picture = item.thumbnail ? tile(item, index, 512, false) : tile(item, index);
  dialog.replaceChildren(close,
    make("div", { class: "portrait" }, picture),
    make("div", { class: "told" },
      make("h2", {}, String(item.id)), known, codes,
      make("div", { class: "buttons" },
        make("a", { class: "primary button", href: link(item), onclick: () => dialog.close() }, "Search from here"),
        item.thumbnail ? make("a", { class: "button", href: `${item.thumbnail}&size=1600`, target: "_blank", rel: "noopener" }, "Larger") : null)));
  if (!dialog.open) dialog.showModal();
  const fields = { index, item: item.id };
  if (query && query.vector) fields.vector = query.vector;
  else if (query && query.id !== null && query.id !== undefined) fields.id = query.id;
  try {
    const [said, facts] = await Promise.all([
      post("/explain", fields),
      ask(`/items/${encodeURIComponent(item.id)}?index=${encodeURIComponent(index)}`),
    ]);
    known.replaceChildren(...Object.entries(facts.metadata).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, text(value))]));
    codes.replaceChildren(...showCode(said, item));
  } catch (error) {
    codes.replaceChildren(make("p", { class: "wrong" }, error.message));
  }
  codes.removeAttribute("aria-busy");
}

function showCode(said, item) {
  const title = make("h3", {}, "What the code says");
  const numbers = make("ol", { class: said.code.length <= 16 ? "numbers aligned" : "numbers" }, said.code.map((word) => make("li", {}, String(word))));
  const where = said.list === null ? null : make("p", { class: "soft" }, `In list ${said.list}.`);
  if (!said.parts.length) return [title, numbers, where].filter(Boolean);
  const total = said.parts.reduce((sum, part) => sum + part, 0) + said.rest;
  const top = Math.max(...said.parts.map(Math.abs), 1e-12);
  const bars = said.parts.map((part, at) => {
    const height = 56 * Math.abs(part) / top;
    return draw("rect", { x: at * 12, width: 9.5, y: 58 - height, height, rx: 1.5, class: part < 0 ? "under" : "" }, draw("title", {}));
  });
  bars.forEach((bar, at) => { bar.firstChild.textContent = `codeword ${said.code[at]} of codebook ${at + 1}: ${short(said.parts[at])}`; });
  const chart = draw("svg", { viewBox: `0 0 ${said.parts.length * 12} 60`, class: "shares", preserveAspectRatio: "none", role: "img", "aria-label": `Shares of the distance by codebook: ${said.parts.map(short).join(", ")}` }, bars);
  const most = said.parts.indexOf(Math.max(...said.parts));
  const rest = Math.abs(said.rest) > 1e-6 * Math.abs(total) ? ` The query itself and cross terms make ${short(said.rest)}.` : "";
  return [title, chart, numbers, where,
    make("p", { class: "soft" }, total <= 1e-9 ? "Its code is the query's own: the distance of codes is 0."
      : `Each bar is what a codeword adds to the distance of codes, ${short(total)}; codebook ${most + 1} adds most (${Math.round(100 * said.parts[most] / (total - said.rest || 1))} %).${rest}`)].filter(Boolean);
}
