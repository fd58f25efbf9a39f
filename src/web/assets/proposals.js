// The review inbox: proposals for the hierarchy, each with its evidence and a button that applies it.

import { get } from "./api.js";
import { applyProposal, hierarchy } from "./care.js";
import { doneLine } from "./care-dialog.js";
import { count, h, put } from "./dom.js";
import { categoryPath, failed, head, problem, sentence, whileBusy } from "./parts.js";

const KINDS = {
  near_duplicates: "Names with the same words", single_chunk: "Leaves of one chunk", over_full: "Leaves with many chunks",
  name_does_not_fit: "Names that do not fit",
};

export async function show(main, route, signal, done) {
  const back = h("p.back", h("a", { href: "#/hierarchy" }, "Hierarchy"));
  const place = h("div.part", { "aria-busy": "true" });
  put(main, back, head("Proposals", "Found by comparing names and texts. Nothing is changed until you apply it."), done, place);
  done?.focus();
  let items;
  let tree;
  try {
    [{ items }, { tree }] = await Promise.all([get("/v1/categories/review", { signal }), hierarchy()]);
  } catch (error) {
    if (error.name !== "AbortError") put(place, problem(error));
    return;
  } finally {
    place.removeAttribute("aria-busy");
  }

  const again = (line) => show(main, route, signal, line).catch(failed);
  const apply = (button, item) => whileBusy(button, async () => {
    try {
      const applied = await applyProposal(item, tree);
      if (applied) again(doneLine(applied.words, applied.change, () => again(doneLine("The change is undone."))));
    } catch (error) { failed(error); }
  });
  const row = (item) => {
    const button = h("button.small", { type: "button", "aria-label": `Apply: ${item.path.join(" › ")}`, onclick: () => apply(button, item) }, "Apply…");
    return h("li.proposal",
      h("div", h("a", { href: `#/hierarchy/${item.category_id}` }, categoryPath(item.path)),
        item.other_path && [h("span.muted", " and "), h("a", { href: `#/hierarchy/${item.other_id}` }, categoryPath(item.other_path))],
        h("p.muted", sentence(item.evidence))),
      button);
  };
  const kinds = [...new Set(items.map(({ kind }) => kind))];
  put(place, items.length === 0 && h("p.empty", "There is nothing to propose."), kinds.map((kind) => {
    const own = items.filter((item) => item.kind === kind);
    return h("section", h("h2", KINDS[kind] ?? kind.replaceAll("_", " "), " ", h("span.muted", count(own.length, "proposal"))), h("ul.plain", own.map(row)));
  }));
}
