// The page: the address says what is shown; everything else follows from it.

import { showAbout } from "./about.js";
import { ask, post, postPicture } from "./api.js";
import { showControls } from "./controls.js";
import { showDetails } from "./details.js";
import { byId, bytes, count, make } from "./dom.js";
import { showFilters } from "./filters.js";
import "./login.js";
import { find, keep } from "./pictures.js";
import { listen, showEmpty, showItem, showPicture } from "./query.js";
import { chip, compare, Grid, headline, labelOf, moveFocus, precision, status, times } from "./results.js";
import { condition, read, write } from "./state.js";
import { text } from "./tiles.js";

const most = 10000;
const WIDE = 1000; // re-ranked for every part of the grid alike, so that parts fit together
let indexes = [];
let index = null;
let facets = [];
let state = read();
let query = null; // what is asked: an item's id, or a picture and its vector
let grid = null;
let running = null;

const address = (changes) => write({ ...state, ...changes });
const link = (item) => address({ id: String(item.id), image: null, as: null, tab: "search" });

function go(changes, replace = false) {
  const next = address(changes);
  if (next === (location.search || "?")) return show();
  history[replace ? "replaceState" : "pushState"](null, "", next);
  return show();
}

async function show() {
  state = read();
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  try {
    await choose(state.index);
    const about = state.tab === "index";
    byId("view-index").hidden = !about;
    byId("view-search").hidden = about;
    mark();
    if (about) await showAbout(index.name);
    else await search(signal);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
}

function fail(error) {
  document.body.removeAttribute("aria-busy");
  const place = state.tab === "index" ? byId("view-index") : byId("results");
  if (place === byId("results")) status([]);
  place.replaceChildren(make("p", { class: "wrong notice", role: "alert" }, error.message));
}

async function choose(name) {
  if (!indexes.length) {
    indexes = (await ask("/indexes")).indexes;
    const select = byId("index-name");
    select.replaceChildren(...indexes.map((one) => make("option", { value: one.name }, one.name)));
    byId("picker").hidden = indexes.length < 2;
    select.addEventListener("change", () => go({ ...read(""), index: select.value, tab: state.tab }));
  }
  const wanted = indexes.find((one) => one.name === name) || indexes[0];
  if (index === wanted) return;
  index = wanted;
  byId("index-name").value = index.name;
  facets = index.metadata ? (await ask(`/indexes/${encodeURIComponent(index.name)}/facets`)).facets : [];
  document.title = `${index.name} – gradsnap`;
  byId("facts").textContent = [index.name, `${count(index.items)} items`, `${bytes(index.bits / 8)} codes`, index.kind].slice(indexes.length < 2 ? 0 : 1).join(" · ");
  byId("choose").hidden = !index.images;
  byId("camera").hidden = !index.images || !navigator.mediaDevices?.getUserMedia;
}

function mark() {
  for (const name of ["search", "index"]) {
    const tab = byId(`tab-${name}`);
    tab.href = address({ tab: name });
    if (state.tab === name) tab.setAttribute("aria-current", "page"); else tab.removeAttribute("aria-current");
  }
}

const labels = () => (facets.find((facet) => facet.column === "label")?.values || []).map((one) => String(one.value));

function refine() {
  showControls(index, state, labels(), (changes, replace) => go(changes, replace));
  showFilters(facets, state, (changes) => go(changes));
  byId("clear").onclick = (event) => { event.preventDefault(); go({ values: {}, ranges: {}, where: "" }); };
}

function fields(extra = {}) {
  const where = condition(state, facets);
  const made = { index: index.name, k: state.k, ...extra };
  if (where) made.where = where;
  if (index.lists && state.probe !== null) made.probe = state.probe === "all" ? index.lists : state.probe;
  if (index.reranks && made.rerank === undefined && !made.floats) made.rerank = state.rerank && Math.max(WIDE, made.k + (made.offset || 0));
  return made;
}

async function prepare() {
  if (state.id !== null) {
    const id = state.id;
    if (query?.id !== id || query.index !== index.name) {
      const item = await ask(`/items/${encodeURIComponent(id)}?index=${encodeURIComponent(index.name)}`);
      query = { id: item.id, index: index.name, item };
    }
    showItem(query.item, index.name);
  } else if (state.image !== null) {
    if (query?.image !== state.image) {
      const blob = await find(state.image);
      if (!blob) throw new Error("This picture is not on this machine any more: drop it again.");
      query = { image: state.image, blob };
    }
    if (query.index !== index.name) query.vector = undefined;
    query.index = index.name;
    showPicture(query.blob);
  } else query = null;
}

async function request(extra, signal) {
  if (query.vector) return post("/search", { ...fields(extra), vector: query.vector }, signal);
  if (query.blob) {
    const answer = await postPicture("/search", query.blob, { ...fields(extra), embedding: true }, signal);
    query.vector = answer.vector;
    return answer;
  }
  return post("/search", { ...fields(extra), id: query.id }, signal);
}

async function search(signal) {
  refine();
  await prepare();
  if (signal.aborted) return;
  if (!query) { await wall(signal); return; }
  document.body.setAttribute("aria-busy", "true");
  const as = state.as ?? (query.item ? nullable(labelOf(query.item)) : null);
  const options = { index: index.name, link, as, onDetails };
  const beside = state.floats && index.floats;
  const answer = await request(beside && index.reranks ? { rerank: false } : {}, signal);
  if (beside) {
    const floats = await request({ floats: true }, signal);
    grid = null;
    const both = compare(byId("results"), answer.results, floats.results, { ...options,
      codeWords: `${bytes(index.bits / 8)} an item`,
      floatWords: `${bytes(index.dim * 2)} an item, every item compared` });
    status([make("strong", { class: "headline" }, `${both} of ${answer.results.length} in both rows`), ...times(answer), chip("by floats", `${floats.milliseconds.search.toFixed(1)} ms`), judged(answer.results, as), judged(floats.results, as, "floats")]);
  } else {
    grid = new Grid(byId("results"), options);
    grid.add(answer.results);
    grid.done = answer.results.length < state.k;
    tell(answer, as);
    if (!answer.results.length) byId("results").replaceChildren(make("p", { class: "notice" }, "Nothing fulfils these filters."));
  }
  document.body.removeAttribute("aria-busy");
  fill();
}

const nullable = (value) => (value === undefined ? null : text(value));

function judged(items, as, name = "") {
  const value = precision(items, as, state.k);
  return value === null ? null : chip(`precision among the first ${Math.min(state.k, items.length)}${name ? ` by ${name}` : ""}`, value.toFixed(2), `Share of class ${as}`);
}

function tell(answer, as) {
  status([headline(grid.items.length, answer.items), ...times(answer), judged(grid.items, as)]);
  grid.answer = answer;
  grid.as = as;
}

// Without a query: a wall of items to start from.
async function wall(signal) {
  showEmpty(index.images);
  const where = condition(state, facets);
  const asked = new URLSearchParams({ index: index.name, count: Math.min(100, Math.max(state.k, 24)) });
  if (where) asked.set("where", where);
  const { ids } = await ask(`/random?${asked}`, { signal });
  const found = index.metadata
    ? (await Promise.all(ids.map((id) => ask(`/items/${encodeURIComponent(id)}?index=${encodeURIComponent(index.name)}`, { signal }))))
    : ids.map((id) => ({ id, thumbnail: index.pictures ? `/thumbnails/${encodeURIComponent(id)}?index=${encodeURIComponent(index.name)}` : undefined }));
  grid = new Grid(byId("results"), { index: index.name, link, as: null, onDetails });
  grid.add(found);
  grid.done = true;
  status([make("strong", { class: "headline" }, "Start anywhere"), make("span", { class: "soft" }, index.images ? "Drop a picture, or click on one of these." : "Click on one of these.")]);
}

async function more() {
  if (!grid || grid.done || grid.busy || !query || grid.items.length >= most - 500) return;
  const own = grid;
  own.busy = true;
  try {
    const answer = await request({ offset: own.items.length, k: Math.max(state.k, 24) }, running.signal);
    if (grid !== own) return;
    own.done = answer.results.length === 0;
    own.add(answer.results);
    tell({ ...answer, milliseconds: own.answer.milliseconds }, own.as);
  } catch (error) {
    own.done = true;
    if (error.name !== "AbortError") fail(error);
  } finally {
    own.busy = false;
  }
  fill();
}

// Goes on while the end of the grid is near.
function fill() {
  if (byId("more").getBoundingClientRect().top < innerHeight + 600) more();
}

function onDetails(item) {
  showDetails(item, { index: index.name, query, link });
}

async function onPicture(blob) {
  if (!index.images) return fail(new Error("This index knows no model to embed pictures."));
  const name = await keep(blob);
  return go({ image: name, id: null, as: null, tab: "search" });
}

async function onRandom() {
  const where = condition(state, facets);
  const asked = new URLSearchParams({ index: index.name });
  if (where) asked.set("where", where);
  try {
    const { id } = await ask(`/random?${asked}`);
    go({ id: String(id), image: null, as: null, tab: "search" });
  } catch (error) { fail(error); }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const own = { o: () => byId("choose").click(), r: onRandom, i: details }[event.key];
  if (own) { event.preventDefault(); own(); }
  if (event.key.startsWith("Arrow") && state.tab === "search" && moveFocus(event.key)) event.preventDefault();
}

function details() {
  const face = document.activeElement.closest?.(".card")?.querySelector(".face");
  const item = face && grid?.items.find((one) => String(one.id) === face.dataset.id);
  if (item) onDetails(item);
}

document.addEventListener("click", (event) => {
  const to = event.target.closest("a[href^='?']");
  if (!to || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  byId("details").close();
  const inGrid = to.classList.contains("face") || to.classList.contains("button");
  if (to.getAttribute("href") !== location.search) history.pushState(null, "", to.getAttribute("href"));
  show().then(() => { if (inGrid) scrollTo({ top: 0, behavior: "instant" }); });
});
byId("details").addEventListener("click", (event) => { if (event.target === byId("details")) byId("details").close(); });
addEventListener("popstate", show);
addEventListener("keydown", onKey);
addEventListener("scroll", fill, { passive: true });
listen({ onPicture, onRandom });
if (matchMedia("(max-width: 900px)").matches) for (const panel of ["controls", "filters"]) byId(panel).open = false;
show();
