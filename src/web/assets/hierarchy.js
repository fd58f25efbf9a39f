// The hierarchy view: the picture, the searchable list, how full each level is, what can be done with a category, and
// the chunks of a leaf.

import { all, get, query } from "./api.js";
import { moveChunk } from "./care.js";
import { doneLine } from "./care-dialog.js";
import { categoryActions } from "./category-actions.js";
import { chunkItem } from "./chunk-item.js";
import { count, h, number, put } from "./dom.js";
import { bySize, group, grow, icicle, pathOf } from "./icicle.js";
import { categoryPath, failed, head, paged, problem, say } from "./parts.js";

const MAX_FOUND = 200;

const address = (node) => (node.isGroup ? `#/hierarchy/${node.parent.id}?from=${node.from}` : node.id ? `#/hierarchy/${node.id}` : "#/hierarchy");

/** Shows a category; `news` is a line that says what was just done. */
export async function show(main, route, signal, news) {
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
  const named = (other) => {
    const node = tree.byId.get(Number(other.id)) ?? tree.root;
    const from = Number(other.get("from"));
    return from > 0 || other.get("from") === "0" ? group(node, from) : node;
  };
  const crumbs = h("nav.crumbs", { "aria-label": "Path" });
  const list = h("ul.category-list");
  const found = h("p.muted.found-count", { role: "status" });
  const search = h("input", { type: "search", placeholder: "Find a category", "aria-label": "Find a category", autocomplete: "off" });
  const below = h("section.category-chunks", { "aria-live": "off" });
  const actions = h("div.row.category-actions");
  const nameParts = h("div.name-parts");
  const frame = h("div.hierarchy");
  const keys = h("p.keys.muted");
  let chosen = named(route);
  /** The places from the first one of this visit to the current one: going back leads up, one level at a time. */
  const trail = () => history.state?.trail ?? [address(chosen)];

  const go = (node) => picture.zoom(node);
  const picture = icicle(tree, (node) => {
    const known = trail();
    const back = known.lastIndexOf(address(node));
    const path = pathOf(node);
    const start = chosen.id === 0 ? 0 : path.findIndex((step) => step.id === chosen.id) + 1;
    const levels = chosen.id === 0 || start > 0 ? path.slice(start) : [node];
    chosen = node;
    search.value = "";
    news?.remove();
    settleOn(node);
    if (back >= 0 && back === known.length - 1) return;
    if (back >= 0) {
      history.go(back - known.length + 1);
      return;
    }
    // Zooming over several levels leaves an entry for each.
    for (const step of levels.length ? levels : [node]) {
      known.push(address(step));
      history.pushState({ trail: [...known] }, "", address(step));
    }
  });
  history.replaceState({ trail: trail() }, "");
  main.follow = (other) => {
    if (other.id === "review") return false;
    const node = named(other);
    if (address(node) !== address(chosen)) {
      chosen = node;
      const had = picture.svg.contains(document.activeElement);
      picture.go(node, had);
      settleOn(node);
    }
    return true;
  };

  function showPath(node) {
    const steps = [tree.root, ...pathOf(node)];
    put(crumbs, h("ol", steps.map((step) => h("li", step === node
      ? h("span", { "aria-current": "location" }, step.name)
      : h("button.link", { type: "button", onclick: () => go(step) }, step.name)))));
  }

  function settleOn(node) {
    showPath(node);
    frame.classList.toggle("at-leaf", node.children.length === 0);
    const isLeaf = node.level === answer.depth;
    put(keys, node.children.length ? "Click to zoom in; Back goes up one level. With the keyboard: arrows, Enter, Escape."
      : `${isLeaf ? "A leaf: its chunks are below. " : ""}Back, Escape or a click goes up one level.`);
    const { buttons, below: parts } = node.isGroup ? { buttons: [], below: [] }
      : categoryActions(node, { tree, depth: answer.depth, renamed: () => showName(node), changed, signal });
    put(actions, buttons);
    put(nameParts, parts);
    fillList();
    showChunks(node);
  }

  /** Shows the current name of a category everywhere. The chunks stay: those of a leaf share its path. */
  function showName(node) {
    node.parent.children.sort(bySize);
    picture.go(chosen, picture.svg.contains(document.activeElement));
    showPath(chosen);
    fillList();
    const title = below.querySelector("h2 span");
    if (title) title.textContent = chosen.name;
    for (const path of below.querySelectorAll(".category-path")) path.replaceWith(categoryPath(pathOf(chosen).map((step) => step.name)));
  }

  const swatch = (node) => {
    const element = h("span.swatch", { class: `level-${Math.min(node.level, 3)}`, "aria-hidden": "true" });
    element.style.setProperty("--hue", String(node.hue));
    return element;
  };
  const entry = (node, names) => h("li", h("button.category", { type: "button", onclick: () => go(node) },
    swatch(node), h("span.category-name", node.name, names && h("span.muted", names)), h("span.num", number(node.chunk_count))));

  function fillList() {
    const wanted = search.value.trim().toLocaleLowerCase();
    if (wanted) {
      const hits = [...tree.byId.values()].filter((node) => node.id && node.name.toLocaleLowerCase().includes(wanted));
      found.textContent = hits.length > MAX_FOUND ? `${number(hits.length)} found, ${MAX_FOUND} shown` : `${number(hits.length)} found`;
      put(list, hits.slice(0, MAX_FOUND).map((node) => entry(node, pathOf(node).slice(0, -1).map((step) => step.name).join(" › "))));
      return;
    }
    const parent = chosen.children.length ? chosen : chosen.parent ?? chosen;
    const under = parent.isGroup ? parent.parent : parent;
    found.textContent = `${count(parent.children.length, "category", "categories")} under ${under.name}`;
    put(list, parent.children.slice(0, MAX_FOUND).map((node) => {
      const item = entry(node);
      if (node === chosen) item.firstChild.setAttribute("aria-current", "true");
      return item;
    }), parent.children.length > MAX_FOUND && h("li.muted", `The largest ${MAX_FOUND} of ${number(parent.children.length)}; find others by name.`));
  }
  search.addEventListener("input", fillList);

  function showChunks(node) {
    if (node.children.length || node.id === 0) {
      put(below);
      return;
    }
    if (node.level < answer.depth) { // chunks are filed only on the last level
      put(below, h("p.empty", "This category is empty."));
      return;
    }
    const items = h("ol.chunks");
    const names = new Map();
    const pages = paged(items, async (cursor) => {
      const page = await get(query(`/v1/categories/${node.id}/chunks`, { limit: 50, cursor }), { signal });
      const unknown = [...new Set(page.items.map((chunk) => chunk.source_id))].filter((id) => !names.has(id));
      await Promise.all(unknown.map(async (id) => names.set(id, await get(`/v1/sources/${id}`, { signal }).then((source) => source.filename, () => "a source"))));
      return page;
    }, (chunk) => chunkItem(chunk, () => move(chunk), h("a", { href: `#/library/${chunk.source_id}/chunks?version=${chunk.source_version}&chunk=${chunk.chunk_id}` },
      `${names.get(chunk.source_id)}, chunk ${chunk.ordinal}`)), h("p.empty", "This category is empty."));
    put(below, h("h2", h("span", node.name), " ", h("span.muted", count(node.chunk_count, "chunk"))), items, pages.foot);
    say(`A leaf: ${node.name}, ${count(node.chunk_count, "chunk")} below`);
    pages.start();
  }

  /** Shows the hierarchy as it is after a change. */
  function changed({ words, change, category }) {
    const id = category ?? chosen.id;
    const undone = () => changed({ words: "The change is undone." });
    const place = id ? `#/hierarchy/${id}` : "#/hierarchy";
    history.replaceState({ trail: [place] }, "", place);
    show(main, { id: String(id || ""), get: () => null }, signal, words && doneLine(words, change, undone)).catch(failed);
  }

  async function move(chunk) {
    try {
      const done = await moveChunk(chunk, { tree, depth: answer.depth });
      if (done) changed(done);
    } catch (error) { failed(error); }
  }

  const full = (level) => {
    // With limits per parent, a level as a whole has none.
    if (answer.limit_scope === "parent") return h("div.meter-row", h("span", `Level ${level.level}`), h("span"), h("span.num", number(level.categories)));
    const share = Math.min(1, level.categories / level.limit);
    const bar = h("span.meter-fill");
    bar.style.setProperty("--share", String(share));
    return h("div.meter-row", h("span", `Level ${level.level}`),
      h("span.meter", { role: "meter", "aria-label": `Level ${level.level}`, "aria-valuemin": "0", "aria-valuemax": String(level.limit), "aria-valuenow": String(level.categories), class: share > 0.9 ? "nearly" : "" }, bar),
      h("span.num", `${number(level.categories)} of ${number(level.limit)}`),
      share > 0.9 && h("span.meter-words", share < 1 ? "Nearly full." : "Full: new text is filed under the categories that exist."));
  };
  put(frame,
    h("div.picture", picture.svg, keys, below),
    h("aside.side",
      h("section.panel", { "aria-label": "Categories" }, search, found, list, actions, nameParts),
      h("section.panel", { "aria-label": "Categories per level" }, h("h2", answer.limit_scope === "parent" ? "Categories (limit per parent)" : "Categories per level"), answer.levels.map(full),
        answer.limit_scope === "parent" && h("p.muted", `At most ${number(answer.levels[0].limit)} below one parent.`),
        answer.full_parents.map((parent) => h("p.notice", "Full: ", parent.id ? categoryPath(parent.path) : "level 1", ". New text is filed under the categories that exist.")))));
  put(main,
    head("Hierarchy", `${count(answer.items.length, "category", "categories")} on ${count(answer.depth, "level")}, ${count(tree.root.chunk_count, "chunk")}`,
      h("a.button", { href: "#/hierarchy/review" }, "Proposals")),
    news, crumbs, frame);
  picture.start(chosen);
  settleOn(chosen);
  news?.focus();
}
