// The changes of one category, or of the whole hierarchy: what was changed by whom, and a button that undoes it.

import { get, query } from "./api.js";
import { undoChange } from "./care.js";
import { h, put, when } from "./dom.js";
import { failed, paged, sentence } from "./parts.js";

const ACTORS = { user: "a user", embedded: "the embedded model" };

const KINDS = {
  rename: ({ to }) => `Renamed to ${to}`,
  move: ({ to }) => `Moved to ${to}`,
  merge: ({ to }) => `Merged into ${to}`,
  remove: ({ to }) => (to ? `Removed, merged into ${to}` : "Removed"),
  split: () => "Split",
  move_chunk: ({ to, chunk_id: chunk }) => `Chunk ${chunk} moved to ${to}`,
};

const wordsOf = (change) => (KINDS[change.kind] ?? (() => change.kind))(change);

/** The folded list; `undone(done)` is called when one of the changes was undone. Category 0 stands for all. */
export function categoryChanges(category, tree, undone, signal) {
  const element = h("details.earlier-names", { hidden: true });
  const item = (change) => {
    const { from, actor, reason, created_at: time, undone_at: over } = change;
    return h("li", from, h("span.muted", `${wordsOf(change)} by ${ACTORS[actor] ?? actor}, `, when(time), over && ", undone"),
      reason && h("span.muted", sentence(reason)),
      !over && h("button.link", { type: "button", "aria-label": `Undo: ${from}: ${wordsOf(change)}`, onclick: () => undo(change) }, "Undo…"));
  };

  async function undo(change) {
    try {
      const done = await undoChange(change, `${change.from}: ${wordsOf(change)}.`, tree);
      if (done) undone(done);
    } catch (error) { failed(error); }
  }

  async function load() {
    const list = h("ul.plain");
    const pages = paged(list, (cursor) => get(query("/v1/categories/changes", { category_id: category || null, limit: 20, cursor }), { signal }), item);
    await pages.start();
    put(element, h("summary", "Changes"), list, pages.foot);
    element.hidden = !list.firstChild && !pages.foot.querySelector(".problem");
  }

  load();
  return { element, load };
}
