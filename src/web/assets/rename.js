// The name of a category: the dialogue that changes it, and the message that offers to undo that.

import { call, get } from "./api.js";
import { h, put } from "./dom.js";
import { dialog, field, problem, showFieldErrors } from "./parts.js";

/** Renames a category only if it still has the name that is shown. */
async function change(category, to) {
  const path = `/v1/categories/${category.id}`;
  const { name } = await get(path);
  if (name !== category.name) {
    category.name = name;
    throw Object.assign(new Error(), { detail: `The category has been renamed to ${name} in the meantime.`, remediation: "The page now shows the current name; check it and try again." });
  }
  category.name = (await call("PATCH", path, { body: { name: to } })).data.name;
}

/**
 * The button that renames a category, and the message after a change. `changed()` is called when the category may
 * have another name.
 */
export function naming(category, changed) {
  const message = h("div.renamed", { role: "status" });
  const button = h("button.small", { type: "button", onclick: open }, "Rename");

  /** Shows the name after a failure as well: somebody else may have changed it. */
  async function rename(to) {
    try {
      await change(category, to);
    } finally {
      changed();
    }
  }

  async function undo(former) {
    put(message);
    // The button that was pressed is gone.
    button.focus();
    try {
      await rename(former);
      put(message, `Renamed back to ${category.name}.`);
    } catch (error) {
      put(message, problem(error, { compact: true }));
    }
  }

  function open() {
    const name = h("input", { type: "text", value: category.name, autocomplete: "off" });
    const trouble = h("div");
    const form = h("form", { novalidate: true }, trouble, field("Name", name, { name: "name", hint: "No model changes a name that you give." }),
      h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Save")));
    let isBusy = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (isBusy) return;
      isBusy = true;
      put(trouble);
      try {
        const former = category.name;
        if (name.value.trim() !== former) {
          await rename(name.value.trim());
          put(message, `Renamed from ${former}. `, h("button.link", { type: "button", onclick: () => undo(former) }, "Undo"));
        }
        box.close();
      } catch (error) {
        if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
        name.focus();
      }
      isBusy = false;
    });
    const box = dialog("Rename the category", form);
    name.select();
  }

  return { button, message };
}
