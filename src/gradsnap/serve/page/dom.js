// Elements from names, attributes and children. Text is only ever set as text, so a
// name that is HTML is shown, not run.

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  set(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(element, attributes);
  element.append(...children.flat());
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

export const byId = (id) => document.getElementById(id);

export const count = (number) => Number(number).toLocaleString("en-US");

export function short(number) {
  if (Number.isInteger(number)) return number.toLocaleString("en-US");
  const size = Math.abs(number);
  if (size >= 1000) return Math.round(number).toLocaleString("en-US");
  if (size >= 100) return number.toFixed(0);
  if (size >= 10) return number.toFixed(1);
  return size >= 0.01 ? number.toFixed(2) : number.toPrecision(2);
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (number >= 1000 && at < units.length - 1) { number /= 1000; at += 1; }
  return `${at === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${units[at]}`;
}

export const milliseconds = (value) =>
  value < 10 ? `${value.toFixed(1)} ms` : value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
