// The token, asked for once; the browser then holds a cookie that scripts cannot read.

import { onToken, openSession } from "./api.js";
import { byId } from "./dom.js";

let asking = null;

function askOnce() {
  const dialog = byId("login");
  return new Promise((done) => {
    byId("login-form").onsubmit = async (event) => {
      event.preventDefault();
      if (await openSession(byId("token").value.trim())) {
        byId("token").value = "";
        dialog.close();
        done();
      } else byId("login-wrong").textContent = "This is not the token.";
    };
    dialog.oncancel = (event) => event.preventDefault();
    if (!dialog.open) dialog.showModal();
  });
}

onToken(() => {
  asking ||= askOnce().finally(() => { asking = null; });
  return asking;
});
