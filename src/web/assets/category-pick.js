// Chooses a category by typing: words of its path filter a list of radio buttons.

import { count, h, number, put } from "./dom.js";
import { pathOf } from "./icicle.js";
import { categoryPath, field } from "./parts.js";

const MAX_SHOWN = 50;

export const namesOf = (node) => pathOf(node).map((step) => step.name);

/** The control for a list of nodes of the hierarchy; `onpick(id)` is called with each choice. */
export function categoryPick(label, nodes, chosen, onpick) {
  const known = nodes.map((node) => ({ node, path: namesOf(node).join(" ").toLocaleLowerCase() }));
  const search = h("input", { type: "search", autocomplete: "off" });
  const found = h("p.muted.found-count", { role: "status" });
  const list = h("div.pick-list", { role: "radiogroup", "aria-label": label });
  let picked = chosen;

  const option = ({ node }) => h("label.check", h("input", {
    type: "radio", name: "category", value: node.id, checked: node.id === picked,
    onchange: () => { picked = node.id; onpick(picked); },
  }), categoryPath(namesOf(node)));

  function hits() {
    const wanted = search.value.toLocaleLowerCase().split(/\s+/);
    return known.filter(({ path }) => wanted.every((word) => path.includes(word)));
  }

  function fill() {
    const all = hits();
    put(list, all.slice(0, MAX_SHOWN).map(option));
    found.textContent = all.length > MAX_SHOWN ? `${number(all.length)} categories, ${MAX_SHOWN} shown` : count(all.length, "category", "categories");
  }

  search.addEventListener("input", fill);
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    // Enter takes the only category that is left, and otherwise must not send the form without a choice.
    const all = hits();
    if (all.length === 1 && all[0].node.id !== picked) list.querySelector("input").click();
    if (all.length !== 1 || list.querySelector(":checked") === null) event.preventDefault();
  });
  fill();
  return { element: h("div.category-pick", field(label, search, { hint: "Type words of its path." }), found, list), search };
}
