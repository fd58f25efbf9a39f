// The dialogue for the space and the API key. Both are stored only in this browser.

import { access, get, setAccess } from "./api.js";
import { h, put } from "./dom.js";
import { dialog, field, problem } from "./parts.js";

export function openSettings(done, error) {
  if (document.querySelector("dialog.box")) return;
  const space = h("input", { type: "text", value: access.space, placeholder: "default", list: "spaces", autocomplete: "off", spellcheck: "false", pattern: "[a-z0-9_\\-]{1,64}" });
  const key = h("input", { type: "password", value: access.key, autocomplete: "off", spellcheck: "false" });
  const spaces = h("datalist", { id: "spaces" });
  // Only administrators may list spaces.
  if (!error) get("/v1/admin/spaces?limit=500").then(({ items }) => put(spaces, items.map((item) => h("option", { value: item.space }))), () => {});
  const form = h("form", spaces,
    error && problem(error, { compact: true }),
    field("Space", space, { hint: "Everything you see belongs to one space. Lower-case letters, digits, - and _." }),
    field("API key", key, { hint: "Needed only if keys are configured. It is stored in this browser and sent only to this memoir." }),
    h("div.row.end",
      h("button", { type: "button", onclick: () => box.close() }, "Cancel"),
      h("button.primary", { type: "submit" }, "Use")));
  const box = dialog("Space and key", form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    box.close();
    const before = access.space;
    setAccess(space.value.trim(), key.value.trim());
    // What is open belongs to the other space.
    if (access.space !== before) location.hash = location.hash.split("/").slice(0, 2).join("/");
    done();
  });
  space.focus();
}
