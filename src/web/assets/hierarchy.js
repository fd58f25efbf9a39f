// The hierarchy view: the picture, the searchable list, how full each level is, and the chunks of a category.

import { all, get, query } from "./api.js";
import { count, h, number, put } from "./dom.js";
import { grow, icicle, pathOf } from "./icicle.js";
import { head, paged, problem } from "./parts.js";
import { chunkItem } from "./source-parts.js";

const MOST_FOUND = 200;

export async function show(main, route, signal) {
  put(main, head("Hierarchy", "\u00a0"), h("div.hierarchy-room"));
  let answer;
  try {
    answer = await all("/v1/categories/tree");
  } catch (error) {
    put(main, head("Hierarchy"), problem(error));
    return;
  }
  if (signal.aborted) return;
  if (answer.items.length === 0) {
    put(main, head("Hierarchy"), h("div.empty.large", h("p", "There are no categories yet. The first text you ingest creates them."), h("a.button.primary", { href: "#/library" }, "Ingest text")));
    return;
  }
  const tree = grow(answer.items);
  const crumbs = h("nav.crumbs", { "aria-label": "Path" });
  const list = h("ul.category-list");
  const found = h("p.muted.found-count", { role: "status" });
  const search = h("input", { type: "search", placeholder: "Find a category", "aria-label": "Find a category", autocomplete: "off" });
  const below = h("section.category-chunks", { "aria-live": "off" });
  let chosen = tree.byId.get(Number(route.id)) ?? tree.root;

  const keys = h("p.keys.muted");
  const go = (node) => { picture.zoom(node); };
  const picture = icicle(tree, (node) => {
    chosen = node;
    // Updates the URL without redrawing the view.
    history.replaceState(null, "", node.id ? `#/hierarchy/${node.id}` : "#/hierarchy");
    search.value = "";
    settleOn(node);
  }, (left) => { put(keys, "Click to zoom in. With the keyboard: arrows, Enter, Escape.", left > 0 && ` ${number(left)} categories are too small to draw; the list shows them.`); });

  function settleOn(node) {
    const steps = [tree.root, ...pathOf(node)];
    put(crumbs, h("ol", steps.map((step) => h("li", step === node
      ? h("span", { "aria-current": "location" }, step.name)
      : h("button.link", { type: "button", onclick: () => go(step) }, step.name)))));
    fillList();
    showChunks(node);
  }

  const entry = (node, names) => h("li", h("button.category", { type: "button", onclick: () => go(node) },
    h("span.swatch", { class: `level-${((node.level - 1) % 6) + 1}`, "aria-hidden": "true" }),
    h("span.category-name", node.name, names && h("span.muted", names)), h("span.num", number(node.chunk_count))));

  function fillList() {
    const wanted = search.value.trim().toLocaleLowerCase();
    if (wanted) {
      const hits = [...tree.byId.values()].filter((node) => node.id && node.name.toLocaleLowerCase().includes(wanted));
      found.textContent = hits.length > MOST_FOUND ? `${number(hits.length)} found, ${MOST_FOUND} shown` : `${number(hits.length)} found`;
      put(list, hits.slice(0, MOST_FOUND).map((node) => entry(node, pathOf(node).slice(0, -1).map((step) => step.name).join(" › "))));
      return;
    }
    found.textContent = chosen.children.length ? `${count(chosen.children.length, "category", "categories")} under ${chosen.name}` : `${chosen.name} is a leaf`;
    put(list, chosen.children.length ? chosen.children.map((node) => entry(node)) : chosen.parent && entry(chosen));
  }
  search.addEventListener("input", fillList);

  function showChunks(node) {
    if (node.children.length || node.id === 0) {
      put(below, h("p.empty", "Select a leaf to read its chunks."));
      return;
    }
    const items = h("ol.chunks");
    const names = new Map();
    const pages = paged(items, async (cursor) => {
      const page = await get(query(`/v1/categories/${node.id}/chunks`, { limit: 50, cursor }), { signal });
      for (const id of new Set(page.items.map((chunk) => chunk.source_id))) {
        if (!names.has(id)) names.set(id, await get(`/v1/sources/${id}`, { signal }).then((source) => source.filename, () => "a source"));
      }
      return page;
    }, (chunk) => chunkItem(chunk, h("a", { href: `#/library/${chunk.source_id}/chunks?version=${chunk.source_version}&chunk=${chunk.chunk_id}` },
      `${names.get(chunk.source_id)}, chunk ${chunk.ordinal}`)), h("p.empty", "This category is empty."));
    put(below, h("h2", node.name, " ", h("span.muted", count(node.chunk_count, "chunk"))), items, pages.foot);
    pages.start();
  }

  const full = (level) => {
    const share = Math.min(1, level.categories / level.limit);
    const bar = h("span.meter-fill");
    bar.style.setProperty("--share", String(share));
    return h("div.meter-row", h("span", `Level ${level.level}`),
      h("span.meter", { role: "meter", "aria-label": `Level ${level.level}`, "aria-valuemin": "0", "aria-valuemax": String(level.limit), "aria-valuenow": String(level.categories), class: share > 0.9 ? "nearly" : "" }, bar),
      h("span.num", `${number(level.categories)} of ${number(level.limit)}`));
  };
  put(main,
    head("Hierarchy", `${count(answer.items.length, "category", "categories")} on ${count(answer.depth, "level")}, ${count(tree.root.chunk_count, "chunk")}`),
    crumbs,
    h("div.hierarchy", h("div.picture", picture.svg, keys),
      h("aside.side",
        h("section.panel", { "aria-label": "Categories" }, search, found, list),
        h("section.panel", { "aria-label": "Categories per level" }, h("h2", answer.limit_scope === "parent" ? "Categories (limit per parent)" : "Categories per level"), answer.levels.map(full)))),
    below);
  picture.start(chosen);
  settleOn(chosen);
}
