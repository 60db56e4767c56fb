// Pictures that were dropped, kept by the browser so that back finds them again. They
// never leave this machine but for the search itself.

const KEPT = 40;
const here = new Map();

function open() {
  return new Promise((done, failed) => {
    const asked = indexedDB.open("gradsnap", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("pictures");
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => failed(asked.error);
  });
}

function finished(request) {
  return new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

export async function keep(blob) {
  const name = await nameOf(blob);
  here.set(name, blob);
  try {
    const store = (await open()).transaction("pictures", "readwrite").objectStore("pictures");
    const old = await finished(store.getAllKeys());
    if (old.length >= KEPT) store.delete(old[0]);
    await finished(store.put(blob, name));
  } catch { /* without a store the picture lasts as long as the page */ }
  return name;
}

export async function find(name) {
  if (here.has(name)) return here.get(name);
  try {
    const store = (await open()).transaction("pictures").objectStore("pictures");
    return (await finished(store.get(name))) || null;
  } catch { return null; }
}

// A name by content: FNV-1a over the bytes, and their number.
async function nameOf(blob) {
  let hash = 0x811c9dc5;
  for (const byte of new Uint8Array(await blob.arrayBuffer())) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return `${(hash >>> 0).toString(16)}-${blob.size.toString(16)}`;
}

export async function drawOn(canvas, blob, side) {
  const bitmap = await createImageBitmap(blob);
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
}
