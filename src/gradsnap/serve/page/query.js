// Where a query comes from: drop, paste, file, camera, or an item.

import { byId, make } from "./dom.js";
import { drawOn } from "./pictures.js";
import { tile } from "./tiles.js";

export function showPicture(blob) {
  const canvas = make("canvas", { role: "img", "aria-label": "The picture searched by" });
  byId("stage").replaceChildren(canvas);
  byId("drop").classList.add("asked");
  byId("caption").textContent = "Your picture";
  drawOn(canvas, blob, 640).catch(() => {
    byId("stage").replaceChildren(make("p", { class: "empty" }, "This browser cannot show the picture; the server may still read it."));
  });
}

export function showItem(item, index) {
  byId("stage").replaceChildren(tile(item, index, 512, false));
  byId("drop").classList.add("asked");
  byId("caption").textContent = String(item.id);
}

export function showEmpty(images) {
  byId("drop").classList.remove("asked");
  byId("caption").textContent = "";
  byId("stage").replaceChildren(make("p", { class: "empty" },
    make("strong", {}, images ? "Drop a picture" : "Choose an item"),
    images ? "or paste one" : "this index is searched by its items and by vectors"));
}

export function listen({ onPicture, onRandom }) {
  const file = byId("file");
  byId("choose").addEventListener("click", () => file.click());
  file.addEventListener("change", () => { if (file.files[0]) onPicture(file.files[0]); file.value = ""; });
  byId("random").addEventListener("click", onRandom);
  document.addEventListener("paste", (event) => {
    const found = [...(event.clipboardData?.files || [])].find((one) => one.type.startsWith("image/"));
    if (found) { event.preventDefault(); onPicture(found); }
  });
  dropping(onPicture);
  camera(onPicture);
}

function dropping(onPicture) {
  const over = byId("over");
  let depth = 0;
  const files = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  document.addEventListener("dragenter", (event) => { if (files(event)) { depth += 1; over.classList.add("shown"); } });
  document.addEventListener("dragleave", () => { depth = Math.max(0, depth - 1); if (!depth) over.classList.remove("shown"); });
  document.addEventListener("dragover", (event) => { if (files(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    depth = 0;
    over.classList.remove("shown");
    const found = event.dataTransfer?.files[0];
    if (found) { event.preventDefault(); onPicture(found); }
  });
}

function camera(onPicture) {
  const [button, dialog, video] = ["camera", "shutter", "video"].map(byId);
  button.hidden = !navigator.mediaDevices?.getUserMedia;
  let stream = null;
  button.addEventListener("click", async () => {
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch {
      byId("caption").textContent = "The camera is not there, or not allowed.";
      return;
    }
    video.srcObject = stream;
    dialog.showModal();
    await video.play();
  });
  byId("shoot").addEventListener("click", () => {
    const canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    dialog.close();
    canvas.toBlob((blob) => { if (blob) onPicture(blob); }, "image/jpeg", 0.92);
  });
  byId("stop").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => { for (const track of stream?.getTracks() || []) track.stop(); });
}
