// What page tests do and measure inside the browser; evaluates to functions by name.
(() => {
  const file = (data) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], "query.png", { type: "image/png" }));
    return transfer;
  };
  const drop = (data) => {
    for (const kind of ["dragenter", "dragover", "drop"]) {
      const options = { dataTransfer: file(data), bubbles: true, cancelable: true };
      document.body.dispatchEvent(new DragEvent(kind, options));
    }
  };
  const paste = (data) => {
    const options = { clipboardData: file(data), bubbles: true };
    document.dispatchEvent(new ClipboardEvent("paste", options));
  };

  // Whatever can be used must have a name.
  const named = (one) => one.labels?.length || one.textContent.trim()
    || one.getAttribute("aria-label") || one.querySelector("img[alt]:not([alt=''])");
  const unlabelled = () => [...document.querySelectorAll("input, select, button, a[href]")]
    .filter((one) => one.offsetParent !== null)
    .filter((one) => !named(one))
    .map((one) => one.outerHTML.slice(0, 120));
  const broken = () => [...document.images]
    .filter((one) => !one.hasAttribute("alt") || (one.complete && !one.naturalWidth)).length;

  // Text must stand out from its ground by 4.5, as WCAG 2 computes it.
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  const pixel = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (style.backgroundImage.includes("gradient")) return null;
      const found = pixel(style.backgroundColor);
      if (found[3] > 250) return found;
    }
    return [255, 255, 255, 255];
  };
  const skipped = ".unseen, option, .badge, dialog *, .over *, .skip";
  const faint = () => {
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
      const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
      if (!own || element.offsetParent === null || element.matches(skipped)) continue;
      const under = ground(element);
      if (!under) continue;
      const [high, low] = [light(pixel(getComputedStyle(element).color)), light(under)].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio < 4.5) found.push(`${element.className} ${element.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
    }
    return found;
  };
  window.checks = { drop, paste, unlabelled, broken, faint };
})();
