// The dialogue for all care of the hierarchy: choose a target if one is needed, see what would change, apply it. And
// the line that says what was done and offers to undo it.

import { post } from "./api.js";
import { categoryPick } from "./category-pick.js";
import { h, put } from "./dom.js";
import { dialog, problem, sentence, whileBusy } from "./parts.js";

/** The problem of a request; errors of fields are told as sentences, because the dialogue has no such fields. */
function trouble(error) {
  const told = (error.errors ?? []).map(({ message }) => sentence(message)).join(" ");
  return problem(told ? { detail: told, remediation: error.remediation } : error, { compact: true });
}

/**
 * Opens the dialogue; resolves to what was applied, `{answer, target}`, or to null.
 *
 * `pick`: `{label, nodes, chosen, isOptional}` if a target is needed; an optional one is asked for only if the service
 * wants one. `send(target, dryRun)` makes the request, `words(answer, target)` says what it would change.
 */
export function careDialog({ title, about, action, pick, send, words, nothing = "Nothing would change." }) {
  return new Promise((resolve) => {
    let target = pick?.chosen ?? null;
    let applied = null;
    let turn = 0;
    const preview = h("div.care-preview", { role: "status" });
    const apply = h("button.primary", { type: "submit", disabled: true }, action);
    const cancel = h("button", { type: "button", onclick: () => box.close() }, "Cancel");
    const picker = pick && categoryPick(pick.label, pick.nodes, target, (id) => { target = id; look(); });
    const form = h("form", { novalidate: true }, about && h("p.care-about", about), picker?.element, preview, h("div.row.end", cancel, apply));
    if (picker) picker.element.hidden = Boolean(pick.isOptional);

    /** Asks what would change. Only the latest of several answers counts. */
    async function look() {
      const mine = turn += 1;
      apply.disabled = true;
      if (!preview.firstChild) put(preview, h("p.muted", "Checking what would change…"));
      try {
        const told = words(await send(target, true), target);
        if (mine !== turn) return;
        put(preview, told.length ? h("ul.plain", told.map((one) => h("li", one))) : h("p", nothing));
        apply.disabled = told.length === 0;
      } catch (error) {
        if (mine !== turn) return;
        if (error.code === "category_not_empty" && picker && target === null) askForTarget();
        else put(preview, trouble(error));
      }
    }

    function askForTarget() {
      put(preview);
      picker.element.hidden = false;
      picker.search.focus();
    }

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (apply.disabled) return;
      whileBusy(apply, async () => {
        try {
          applied = { answer: await send(target, false), target };
          box.close();
        } catch (error) {
          put(preview, trouble(error));
        }
      });
    });
    const box = dialog(title, form);
    box.addEventListener("close", () => resolve(applied));
    if (picker && !pick.isOptional) picker.search.focus();
    else cancel.focus();
    if (!picker || pick.isOptional || target !== null) look();
  });
}

/** "Merged Cats into Pets. Undo"; `undone()` is called when that was undone. Without a number, nothing is undone. */
export function doneLine(words, change, undone) {
  const line = h("div.care-done", { tabindex: "-1", role: "status" }, words);
  if (!change) return line;
  const undo = h("button.link", { type: "button", onclick: () => whileBusy(undo, async () => {
    try {
      await post(`/v1/categories/changes/${change}/undo`, { dry_run: false });
      await undone();
    } catch (error) {
      put(line, words, trouble(error));
    }
  }) }, "Undo");
  line.append(" ", undo);
  return line;
}
