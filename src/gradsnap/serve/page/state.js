// What is shown, and the address that says so. Every view is an address: back works,
// and a link can be sent.

export const FIRST = 24;

export function read(address = location.search) {
  const given = new URLSearchParams(address);
  const state = {
    tab: given.get("tab") === "index" ? "index" : "search",
    index: given.get("index"),
    id: given.get("id"),
    image: given.get("image"),
    k: whole(given.get("k"), FIRST, 1, 500),
    probe: given.get("probe") === "all" ? "all" : whole(given.get("probe"), null, 1, 1e9),
    rerank: given.get("rerank") !== "0",
    floats: given.get("floats") === "1",
    as: given.get("as"),
    where: given.get("where") || "",
    values: {},
    ranges: {},
  };
  for (const [name, value] of given) {
    if (name.startsWith("is.")) (state.values[name.slice(3)] ||= []).push(value);
    if (name.startsWith("in.")) {
      const [low, high] = value.split("..").map(Number);
      if (Number.isFinite(low) && Number.isFinite(high)) state.ranges[name.slice(3)] = [low, high];
    }
  }
  return state;
}

export function write(state) {
  const made = new URLSearchParams();
  const put = (name, value) => { if (value !== null && value !== undefined && value !== "") made.append(name, value); };
  put("index", state.index);
  if (state.tab === "index") put("tab", "index");
  put("id", state.id);
  put("image", state.image);
  if (state.k !== FIRST) put("k", state.k);
  put("probe", state.probe);
  if (!state.rerank) put("rerank", "0");
  if (state.floats) put("floats", "1");
  put("as", state.as);
  for (const [name, some] of Object.entries(state.values)) for (const value of some) put(`is.${name}`, value);
  for (const [name, [low, high]] of Object.entries(state.ranges)) put(`in.${name}`, `${low}..${high}`);
  put("where", state.where);
  return `?${made}`;
}

// The condition that all filters say together.
export function condition(state, facets) {
  const parts = [];
  for (const [name, some] of Object.entries(state.values)) {
    if (!some.length) continue;
    const facet = facets.find((one) => one.column === name);
    const flags = facet && facet.values && facet.values.some((one) => typeof one.value === "boolean");
    const shown = some.map((value) => (flags ? value : quoted(value)));
    parts.push(`${column(name)} in (${shown.join(", ")})`);
  }
  for (const [name, [low, high]] of Object.entries(state.ranges)) {
    parts.push(`${column(name)} >= ${low} and ${column(name)} <= ${high}`);
  }
  if (state.where.trim()) parts.push(`(${state.where.trim()})`);
  return parts.join(" and ");
}

const column = (name) => `\`${name}\``;
const quoted = (text) => `"${String(text).replace(/(["\\])/g, "\\$1")}"`;

function whole(text, otherwise, low, high) {
  const value = Number.parseInt(text, 10);
  return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : otherwise;
}
