// The buttons of a category: what a person can do with it, and what stands below them.

import { post } from "./api.js";
import { mergeCategory, moveCategory, removeCategory, splitCategory } from "./care.js";
import { categoryChanges } from "./category-changes.js";
import { h, put } from "./dom.js";
import { dialog, failed, field, problem, showFieldErrors, toast } from "./parts.js";
import { naming } from "./rename.js";

/**
 * The buttons and the parts below them. `renamed()` is called when the name may be another one, `changed(done)` when
 * the hierarchy is another one.
 */
export function categoryActions(node, { tree, depth, renamed, changed, signal }) {
  const changes = categoryChanges(node.id, tree, changed, signal);
  const create = node.level < depth && button("New category", () => newCategory(node, changed));
  if (node.id === 0) return { buttons: [create], below: [changes.element] };

  const name = naming(node, () => {
    renamed();
    changes.load();
  });
  const care = (title, act) => button(title, async () => {
    try {
      const done = await act(node, tree);
      if (done) changed(done);
    } catch (error) { failed(error); }
  });
  return {
    buttons: [create, name.button,
      node.level > 1 && care("Move…", moveCategory), care("Merge…", mergeCategory),
      node.level === depth && care("Split…", splitCategory), care("Remove…", removeCategory)],
    below: [name.message, changes.element],
  };
}

const button = (title, onclick) => h("button.small", { type: "button", onclick }, title);

function newCategory(parent, changed) {
  const name = h("input", { type: "text", maxlength: 100, autocomplete: "off" });
  const trouble = h("div");
  const form = h("form", { novalidate: true }, trouble, field("Name", name, { name: "name", hint: "Text that fits is filed here from now on." }),
    h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Create")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("/v1/categories", { name: name.value.trim(), parent_id: parent.id || null });
      box.close();
      toast(`${name.value.trim()} was created`);
      changed({ category: parent.id });
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
    }
  });
  const box = dialog(parent.id ? `New category under ${parent.name}` : "New category", form);
  name.focus();
}
