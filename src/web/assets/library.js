// The library: every source, running ingestions, and the panel to ingest text.

import { call, get, query } from "./api.js";
import { addPanel } from "./add.js";
import { bytes, count, h, number, put, settle, when } from "./dom.js";
import { fullNotice } from "./full.js";
import { jobCard } from "./job-card.js";
import { forget, isOver, jobs, listen, watch } from "./live.js";
import { failed, head, problem, toast, toggle } from "./parts.js";
import { results, searchForm } from "./search.js";
import { triedQuestions, welcome } from "./welcome.js";

const PAGE = 50;

/** Changes a source only if it has not changed since it was shown. */
export async function change(source, body) {
  const { data, etag } = await call("GET", `/v1/sources/${source.id}`);
  if (data.updated_at !== source.updated_at) {
    Object.assign(source, data);
    throw Object.assign(new Error(), { detail: `${data.filename} has changed in the meantime`, remediation: "The page now shows the current state; check it and try again." });
  }
  const changed = await call("PATCH", `/v1/sources/${source.id}`, { body, headers: { "If-Match": etag } });
  Object.assign(source, changed.data);
  return source;
}

export function eligibility(source, after) {
  return toggle(`Queries may use ${source.filename}`, source.eligible, async (on) => {
    try {
      await change(source, { eligible: on });
    } finally {
      after?.();
    }
    toast(source.eligible ? `Queries use ${source.filename} again` : `Queries no longer use ${source.filename}`);
    return source.eligible;
  });
}

export const userTags = (source) => source.tags.filter((tag) => tag !== "file_ingest");

/** The helper on one line; a description that begins with the topic is not shown with the topic twice. */
const about = (helper) => (helper || "No helper").replace(/Topic: ([^.]+)\. \1(?=[\s.:,;])/, "Topic: $1");

function row(source, onTag) {
  const folder = source.path.slice(0, source.path.length - source.filename.length).replace(/(.)\/$/, "$1");
  const updated = h("td", { "data-name": "Updated" }, when(source.updated_at));
  return h("tr", { "data-source": source.id },
    h("td.main-cell", h("a.name", { href: `#/library/${source.id}` }, source.filename), h("span.path", folder),
      h("span.about", { title: source.helper ?? "" }, about(source.helper))),
    h("td", { "data-name": "Tags" }, userTags(source).map((tag) => h("button.tag", { type: "button", "aria-label": `Only sources with the tag ${tag}`, onclick: () => onTag(tag) }, tag))),
    h("td.num", { "data-name": "Versions" }, number(source.latest_version)),
    h("td.num", { "data-name": "Size" }, bytes(source.size_bytes)),
    h("td.switch-cell", { "data-name": "In use" }, eligibility(source, () => put(updated, when(source.updated_at)))),
    updated);
}

/** The columns that sort, and what the API calls them. */
const SORTS = { name: "name", versions: "versions", size: "size", updated: "updated_at" };

/** Column heads that sort; `change({by, down})` is called with the new order, `by` null for newest first. */
function sortHead(start, change) {
  let order = start;
  const heads = new Map();
  const mark = () => {
    for (const [name, other] of heads) {
      if (name === order.by) other.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else other.removeAttribute("aria-sort");
    }
  };
  const column = (by, label, kind = "") => {
    const cell = h("th", { class: kind }, h("button.sort", { type: "button", onclick: () => {
      order = order.by === by ? (order.down === (by !== "name") ? { by, down: !order.down } : { by: null, down: true }) : { by, down: by !== "name" };
      mark();
      change(order);
    } }, label));
    heads.set(by, cell);
    return cell;
  };
  const head = h("thead", h("tr", column("name", "Source"), h("th", "Tags"), column("versions", "Versions", "num"), column("size", "Size", "num"), h("th", "In use"), column("updated", "Updated")));
  mark();
  return head;
}

/** The order that an address names: `sort=size` for the largest first, `sort=-size` the other way round. */
function orderOf(text) {
  const by = (text ?? "").replace("-", "");
  if (!SORTS[by]) return { by: null, down: true };
  return { by, down: text.startsWith("-") !== (by !== "name") };
}

const orderName = ({ by, down }) => by && `${down === (by !== "name") ? "" : "-"}${by}`;

export async function show(main, route, signal) {
  const body = h("tbody");
  const foot = h("div.more");
  const total = h("p.lead", { "aria-live": "polite" }, "\u00a0");
  const name = h("input", { type: "search", placeholder: "Name or path", "aria-label": "Only sources whose name or path contains this", autocomplete: "off", value: route.get("name") ?? "" });
  const known = h("datalist", { id: "tags" });
  const tag = h("input", { type: "search", placeholder: "Tag", "aria-label": "Only sources with this tag", autocomplete: "off", list: "tags", value: route.get("tag") ?? "" });
  const use = h("select", { "aria-label": "Only sources that are in use, or excluded" },
    [["", "All"], ["true", "In use"], ["false", "Excluded"]].map(([value, label]) => h("option", { value, selected: value === (route.get("use") ?? "") }, label)));
  const unfilter = h("button.quiet", { type: "button", hidden: true, onclick: () => {
    for (const input of [name, tag, use]) input.value = "";
    refresh();
    name.focus({ preventScroll: true });
  } }, "Clear filters");
  let order = orderOf(route.get("sort"));
  const table = h("div.table-box", h("table.list.sources", h("caption.sr", "Sources; newest first unless sorted by a column"),
    sortHead(order, (next) => { order = next; refresh(); }), body), foot);
  const finished = h("details.finished-jobs", { hidden: true });
  const clear = h("button.small.clear-jobs", { type: "button", hidden: true, onclick: () => {
    for (const entry of jobs().filter((other) => isOver(other.job))) {
      forget(entry.job.id);
      cards.get(entry.job.id)?.remove();
    }
    tidy();
  } }, "Clear finished");
  const active = h("section.active-jobs", { "aria-label": "Ingestions", hidden: true }, clear);
  const heading = h("div.head", h("div", h("h1", { tabindex: "-1" }, "Library"), total),
    h("div.row.filters", name, tag, known, use, unfilter,
      // On narrow screens the panel is below the list.
      h("button.only-narrow", { type: "button", onclick: () => { main.querySelector(".add").scrollIntoView(); main.querySelector(".drop button").focus({ preventScroll: true }); } }, "Ingest text")));
  const full = h("div");
  const first = h("div.first", { hidden: true });
  let searching = Boolean(route.get("search"));
  const search = searchForm(route);
  const found = h("section.results", { "aria-label": "Search results", hidden: !searching });
  const questions = triedQuestions();
  // Cards appear beside the table, so that no row moves under the pointer.
  const add = addPanel();
  put(main, first, h("div.library", h("div.library-main", heading, full, search, found, table), h("aside.side", add, questions, finished, active)));
  add.takeFilesOf(main);

  function setFirst(isFirst) {
    if (isFirst && first.hidden) put(first, welcome(() => questions.reveal()));
    first.hidden = !isFirst;
    table.hidden = isFirst || searching;
    search.hidden = isFirst;
    heading.hidden = isFirst;
    main.classList.toggle("is-first", isFirst);
  }

  const byTag = (name) => {
    tag.value = name;
    refresh();
    tag.focus({ preventScroll: true });
  };
  const tags = new Set();
  let shown = 0;
  function append(items) {
    for (const name of items.flatMap(userTags)) {
      if (!tags.has(name)) known.append(h("option", { value: name }));
      tags.add(name);
    }
    const rows = items.map((source) => row(source, byTag));
    body.append(...rows);
    shown += items.length;
    return rows;
  }

  let turn = 0;
  /** A page in the chosen order, the newest first if none is chosen. */
  async function page(cursor, limit = PAGE) {
    const mine = turn += 1;
    const filters = { name: name.value.trim(), tag: tag.value.trim(), eligible: use.value };
    const sort = `${order.down ? "-" : ""}${SORTS[order.by] ?? "created_at"}`;
    table.setAttribute("aria-busy", "true");
    try {
      const found = await get(query("/v1/sources", { ...filters, sort, limit, cursor }), { signal });
      // Another order or filter was chosen meanwhile.
      if (mine === turn) draw(cursor, found, Object.values(filters).some(Boolean));
    } finally {
      if (mine === turn) table.removeAttribute("aria-busy");
    }
  }
  function draw(cursor, { items, next_cursor: next, total: all }, filtered) {
    const hadFocus = foot.contains(document.activeElement);
    if (!cursor) { body.replaceChildren(); shown = 0; }
    const rows = append(items);
    unfilter.hidden = !filtered;
    setFirst(shown === 0 && !filtered && jobs().length === 0);
    total.textContent = !next ? count(shown, "source") : order.by ? `${number(shown)} of ${count(all, "source")} shown` : `The newest ${number(shown)} of ${count(all, "source")}`;
    put(foot,
      next && h("button", { type: "button", onclick: () => page(next).catch(failed) }, "Show more"),
      shown === 0 && h("p.empty", filtered ? "No source matches the filters." : "Sources appear here once they are filed."));
    if (hadFocus) rows[0]?.querySelector("a").focus();
  }
  const again = settle(() => page(undefined, Math.min(500, Math.max(PAGE, shown + 10))).catch(failed), 250);
  /** The address names order and filters, so that a reload or a link shows the same list. */
  function refresh() {
    // Filters are for the list, so it takes the place of what was found.
    if (searching) {
      searching = table.hidden = false;
      found.hidden = true;
      search.elements.search.value = "";
    }
    history.replaceState(null, "", query("#/library", { sort: orderName(order), name: name.value.trim(), tag: tag.value.trim(), use: use.value }));
    shown = 0;
    again();
  }
  name.addEventListener("input", refresh);
  tag.addEventListener("input", refresh);
  use.addEventListener("change", refresh);

  const cards = new Map();
  const over = new Set(jobs().filter((entry) => isOver(entry.job)).map((entry) => entry.job.id));
  /** Jobs that were over before this visit of the view are folded; the others stay where they are. */
  const wereOver = new Set(over);
  function tidy() {
    const old = finished.querySelectorAll(".job-card").length;
    finished.hidden = old === 0;
    if (old) put(finished.querySelector("summary") ?? finished.appendChild(h("summary")), count(old, "finished ingestion"));
    active.hidden = active.querySelectorAll(".job-card").length + old === 0;
    clear.hidden = !jobs().some((entry) => isOver(entry.job));
  }
  function showJob(entry) {
    if (entry.job.kind && entry.job.kind !== "ingestion") return;
    if (!cards.has(entry.job.id)) {
      const card = jobCard(entry);
      cards.set(entry.job.id, card);
      if (wereOver.has(entry.job.id) && !finished.firstChild) finished.append(h("summary"));
      if (wereOver.has(entry.job.id)) finished.append(card);
      else clear.after(card);
      setFirst(false);
    }
    cards.get(entry.job.id).update();
    tidy();
    if (entry.job.state === "succeeded" && !over.has(entry.job.id)) again();
    if (isOver(entry.job)) over.add(entry.job.id);
    else over.delete(entry.job.id);
  }
  jobs().forEach(showJob);
  listen(showJob, signal);
  new MutationObserver(tidy).observe(active, { childList: true });
  new MutationObserver(tidy).observe(finished, { childList: true });

  table.hidden = searching;
  try {
    await Promise.all([page(), searching && results(found, route, signal), fullNotice(signal).then((notice) => put(full, notice), () => {})]);
    for (const state of ["running", "awaiting_helper", "queued"]) {
      const { items } = await get(query("/v1/jobs", { state, kind: "ingestion", limit: 50 }), { signal });
      items.reverse().forEach((job) => watch(job));
    }
  } catch (error) {
    if (error.name !== "AbortError") put(main, head("Library"), problem(error));
  }
}

