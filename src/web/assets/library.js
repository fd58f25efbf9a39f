// The library: every source, running ingestions, and the panel to ingest text.

import { call, get, query } from "./api.js";
import { addPanel } from "./add.js";
import { bytes, count, h, number, put, settle, when } from "./dom.js";
import { jobCard } from "./job-card.js";
import { isOver, jobs, listen, watch } from "./live.js";
import { failed, head, problem, toast, toggle } from "./parts.js";
import { results, searchForm } from "./search.js";
import { triedQuestions, welcome } from "./welcome.js";

const PAGE = 50;

/** Sizes of versions; a version never changes. */
const sizes = new Map();

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

function row(source) {
  const size = h("span", sizes.get(`${source.id}/${source.latest_version}`) ?? "…");
  const about = h("span.about", "\u00a0");
  const updated = h("td", { "data-name": "Updated" }, when(source.updated_at));
  const element = h("tr", { "data-source": source.id },
    h("td.main-cell", h("a.name", { href: `#/library/${source.id}` }, source.filename), h("span.path", source.path), about),
    h("td", { "data-name": "Tags" }, userTags(source).map((tag) => h("span.tag", tag))),
    h("td.num", { "data-name": "Versions" }, number(source.latest_version)),
    h("td.num", { "data-name": "Size" }, size),
    h("td.switch-cell", { "data-name": "In use" }, eligibility(source, () => put(updated, when(source.updated_at)))),
    updated);
  element.complete = async () => {
    const name = `${source.id}/${source.latest_version}`;
    if (source.latest_version === 0) sizes.set(name, "–");
    if (!sizes.has(name)) {
      const version = await get(`/v1/sources/${source.id}/versions/${source.latest_version}`).catch(() => null);
      if (version) sizes.set(name, bytes(version.size_bytes));
    }
    size.textContent = sizes.get(name) ?? "–";
    const helpers = await get(`/v1/sources/${source.id}/helpers`).catch(() => ({ items: [] }));
    about.textContent = about.title = helpers.items[0]?.text || "No helper";
  };
  return element;
}

/** The list contains neither sizes nor helpers; they are loaded row by row, once a row is visible. */
function completer(signal) {
  const waiting = [];
  let busy = false;
  const work = async () => {
    if (busy) return;
    busy = true;
    while (waiting.length && !signal.aborted) await waiting.shift().complete();
    busy = false;
  };
  const eye = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      eye.unobserve(target);
      waiting.push(target);
    }
    work();
  }, { rootMargin: "300px" });
  signal.addEventListener("abort", () => eye.disconnect());
  return (rows) => rows.forEach((element) => eye.observe(element));
}

export async function show(main, route, signal) {
  const body = h("tbody");
  const foot = h("div.more");
  const total = h("p.lead", { "aria-live": "polite" }, "\u00a0");
  const tag = h("input", { type: "search", placeholder: "Tag", "aria-label": "Only sources with this tag", autocomplete: "off" });
  const use = h("select", { "aria-label": "Only sources that are in use, or excluded" },
    h("option", { value: "" }, "All"), h("option", { value: "true" }, "In use"), h("option", { value: "false" }, "Excluded"));
  const table = h("div.table-box", h("table.list.sources",
    h("thead", h("tr", h("th", "Source"), h("th", "Tags"), h("th.num", "Versions"), h("th.num", "Size"), h("th", "In use"), h("th", "Updated"))), body), foot);
  const active = h("section.active-jobs", { "aria-label": "Ingestions", hidden: true });
  const heading = h("div.head", h("div", h("h1", { tabindex: "-1" }, "Library"), total),
    h("div.row.filters", tag, use,
      // On narrow screens the panel is below the list.
      h("button.only-narrow", { type: "button", onclick: () => { main.querySelector(".add").scrollIntoView(); main.querySelector(".drop button").focus({ preventScroll: true }); } }, "Ingest text")));
  const first = h("div.first", { hidden: true });
  const searching = Boolean(route.get("search"));
  const search = searchForm(route);
  const found = h("section.results", { "aria-label": "Search results", hidden: !searching });
  const questions = triedQuestions();
  // Cards appear beside the table, so that no row moves under the pointer.
  put(main, first, h("div.library", h("div.library-main", heading, search, found, table), h("aside.side", addPanel(), questions, active)));

  function setFirst(isFirst) {
    if (isFirst && first.hidden) put(first, welcome(() => questions.reveal()));
    first.hidden = !isFirst;
    table.hidden = isFirst || searching;
    search.hidden = isFirst;
    heading.hidden = isFirst;
    main.classList.toggle("is-first", isFirst);
  }

  const complete = completer(signal);
  let shown = 0;
  async function page(cursor, limit = PAGE) {
    const filters = { tag: tag.value.trim(), eligible: use.value };
    const answer = await get(query("/v1/sources", { ...filters, limit, cursor }), { signal });
    const rows = answer.items.map(row);
    if (!cursor) { body.replaceChildren(); shown = 0; }
    body.append(...rows);
    shown += rows.length;
    const filtered = filters.tag || filters.eligible;
    setFirst(shown === 0 && !filtered && jobs().length === 0);
    total.textContent = `${count(shown, "source")}${answer.next_cursor ? " shown, there are more" : ""}`;
    put(foot,
      answer.next_cursor && h("button", { type: "button", onclick: () => page(answer.next_cursor).catch(failed) }, "Show more"),
      shown === 0 && h("p.empty", filtered ? "No source matches the filters." : "Sources appear here once they are filed."));
    complete(rows);
  }
  const refresh = settle(() => page(undefined, Math.min(500, Math.max(PAGE, shown + 10))).catch(failed), 250);
  tag.addEventListener("input", refresh);
  use.addEventListener("change", refresh);

  const cards = new Map();
  const over = new Set(jobs().filter((entry) => isOver(entry.job)).map((entry) => entry.job.id));
  function showJob(entry) {
    if (entry.job.kind && entry.job.kind !== "ingestion") return;
    if (!cards.has(entry.job.id)) {
      const card = jobCard(entry);
      cards.set(entry.job.id, card);
      active.append(card);
      setFirst(false);
    }
    cards.get(entry.job.id).update();
    active.hidden = active.children.length === 0;
    if (entry.job.state === "succeeded" && !over.has(entry.job.id)) refresh();
    if (isOver(entry.job)) over.add(entry.job.id);
    else over.delete(entry.job.id);
  }
  jobs().forEach(showJob);
  listen(showJob, signal);
  new MutationObserver(() => { active.hidden = active.children.length === 0; }).observe(active, { childList: true });

  table.hidden = searching;
  try {
    await Promise.all([page(), searching && results(found, route, signal)]);
    for (const state of ["running", "awaiting_helper", "queued"]) {
      const { items } = await get(query("/v1/jobs", { state, kind: "ingestion", limit: 50 }), { signal });
      items.reverse().forEach((job) => watch(job));
    }
  } catch (error) {
    if (error.name !== "AbortError") put(main, head("Library"), problem(error));
  }
}

