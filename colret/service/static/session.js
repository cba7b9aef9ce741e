// Asks for the key of a service that has one, once, and for a session in its place.

import { onKeyNeeded, openSession } from "./api.js";
import { $ } from "./dom.js";

function askForKey() {
  const dialog = $("#key");
  return new Promise((resolve) => {
    if (dialog.open) return;
    dialog.showModal();
    $("form", dialog).onsubmit = async (event) => {
      event.preventDefault();
      const opened = await openSession($("#key-value").value).catch(() => false);
      $("#key-error").textContent = opened ? "" : "That is not a key of this index.";
      if (!opened) return;
      $("#key-value").value = "";
      dialog.close();
      resolve(true);
    };
    dialog.oncancel = () => resolve(false);
  });
}

let keyAsked = null; // several requests may find at the same time that they need one

onKeyNeeded(() => {
  keyAsked ??= askForKey().finally(() => (keyAsked = null));
  return keyAsked;
});
