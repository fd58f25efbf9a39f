// The tabs of a source: chunks, text, versions, helper. `source.js` owns the frame around them.

import { all, call, get, post, query, text as fetchText } from "./api.js";
import { pasteDialog } from "./add.js";
import { movableChunk } from "./chunk-item.js";
import { bytes, count, h, number, put, whenWhole } from "./dom.js";
import { diffView } from "./diff.js";
import { helperForm } from "./helper.js";
import { dialog, failed, load, marked, paged, problem, toast } from "./parts.js";

/** Characters of a text that are shown at first, so that the page stays fast. */
const LONG = 200000;

export async function chunks(place, source, route, signal) {
  const wanted = Number(route.get("chunk")) || 0;
  const version = Number(route.get("version")) || source.latest_version;
  // A text is cut twice, for the hierarchy and for search; a citation can name a chunk of either.
  const cited = wanted ? await get(`/v1/chunks/${wanted}`, { signal }).catch(() => null) : null;
  const profile = cited?.profile === "retrieval" ? "retrieval" : undefined;
  const list = h("ol.chunks");
  const pages = paged(list,
    (cursor) => get(query(`/v1/sources/${source.id}/chunks`, { version, profile, limit: 100, cursor }), { signal }),
    movableChunk, h("p.empty", "This version has no chunks."));
  put(place,
    version !== source.latest_version && h("p.notice", `This is version ${version}. `, h("a", { href: `#/library/${source.id}` }, "Show the latest")),
    profile && h("p.notice", "These chunks are cut for search. The hierarchy files the same text in other chunks. ", h("a", { href: `#/library/${source.id}/chunks?version=${version}` }, "Show the filed chunks")),
    list, pages.foot);
  if (!wanted) return pages.start();
  // To reach a chunk further down, all pages before it are loaded.
  let cursor;
  do {
    const page = await get(query(`/v1/sources/${source.id}/chunks`, { version, profile, limit: 500, cursor }), { signal });
    list.append(...page.items.map(movableChunk));
    cursor = page.next_cursor;
  } while (cursor && !list.querySelector(`[data-chunk="${wanted}"]`));
  const found = list.querySelector(`[data-chunk="${wanted}"]`);
  if (found) {
    found.classList.add("found");
    found.setAttribute("aria-current", "true");
    found.scrollIntoView({ block: "center" });
    found.focus({ preventScroll: true });
  } else {
    toast(`Chunk ${wanted} is not in version ${version}`, "bad");
  }
  if (cursor) put(pages.foot, h("a", { href: `#/library/${source.id}` }, "Show the source from the beginning"));
}

async function versionPick(source, chosen, onchange, label) {
  const { items } = await all(`/v1/sources/${source.id}/versions`, {}, 500);
  return h("select", { "aria-label": label, onchange }, items.map((item) =>
    h("option", { value: item.version, selected: item.version === chosen }, `Version ${item.version}`)));
}

export async function text(place, source, route, signal) {
  const version = Number(route.get("version")) || source.latest_version;
  const pick = await versionPick(source, version, (event) => { location.hash = `#/library/${source.id}/text?version=${event.target.value}`; }, "Version");
  const body = await fetchText(`/v1/sources/${source.id}/versions/${version}/content`, { signal });
  const [start, end] = [Number(route.get("from")) || 0, Number(route.get("to")) || 0].map((place) => unit(body, place));
  // The words found, counted from the beginning of the chunk.
  const hits = (route.get("hits") ?? "").split(",").map((pair) => pair.split("-").map(Number)).filter(([from, to]) => to > from).map(([from, to]) => ({ start: from, end: to }));
  const wanted = end > start && h("mark", { tabindex: "-1" }, marked(body.slice(start, end), hits));
  const shown = h("pre.verbatim.whole", { tabindex: "0", role: "region", "aria-label": `Text of version ${version}` },
    wanted ? [body.slice(0, start), wanted, body.slice(end, end + LONG)] : body.slice(0, LONG));
  const rest = body.length > (wanted ? end : 0) + LONG && h("button", { type: "button", onclick: (event) => { shown.textContent = body; event.target.remove(); } }, `Show all ${number(body.length)} characters`);
  put(place, h("div.row", pick,
    h("button", { type: "button", onclick: () => pasteDialog({ source, start: body }) }, "Edit as a new version")), shown, rest);
  if (wanted) {
    wanted.scrollIntoView({ block: "center" });
    wanted.focus({ preventScroll: true });
  }
}

/** Converts a character position: the service counts characters, the browser counts UTF-16 units. */
function unit(text, character) {
  let at = 0;
  for (let left = character; left > 0 && at < text.length; left -= 1) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}

export async function versions(place, source, route, signal) {
  const { items } = await all(`/v1/sources/${source.id}/versions`, {}, 2000);
  const newest = items[0].version;
  const shown = { from: Number(route.get("from")) || Math.max(1, newest - 1), to: Number(route.get("to")) || newest };
  const compare = (from, to) => {
    Object.assign(shown, { from, to });
    // Updates the URL in place, so that the slider and the lists keep the focus.
    history.replaceState(null, "", `#/library/${source.id}/versions?from=${from}&to=${to}`);
    update();
  };
  const line = (item) => h("li.version", { "data-version": item.version },
    h("span.version-dot", { "aria-hidden": "true" }),
    h("div", h("strong", `Version ${item.version}`), " ", h("span.muted", whenWhole(item.ingested_at)),
      h("p.muted", `${bytes(item.size_bytes)}, ${number(item.token_count)} tokens`,
        item.shares_chunks && " · the same text as an earlier version", item.note && ` · ${item.note}`),
      h("p.version-links",
        h("a", { href: `#/library/${source.id}/text?version=${item.version}`, "aria-label": `Text of version ${item.version}` }, "Text"),
        h("a", { href: `#/library/${source.id}/chunks?version=${item.version}`, "aria-label": `Chunks of version ${item.version}` }, "Chunks"),
        item.version > 1 && h("button.link", { type: "button", "aria-label": `What changed in version ${item.version}`, onclick: () => compare(item.version - 1, item.version) }, "What changed"),
        item.job_id && h("a", { href: `#/jobs/${item.job_id}`, "aria-label": `Job of version ${item.version}` }, "Job"))));
  const pick = (name, onchange) => h("select", { "aria-label": name, onchange }, items.map((item) => h("option", { value: item.version }, `Version ${item.version}`)));
  const left = pick("From version", () => compare(Number(left.value), shown.to));
  const right = pick("To version", () => compare(shown.from, Number(right.value)));
  const slider = h("input", { type: "range", id: "as-of", min: "1", max: String(newest), step: "1" });
  const moment = h("output", { for: "as-of" });
  slider.addEventListener("input", () => compare(Math.max(1, slider.value - 1), Number(slider.value)));
  const timeline = h("ol.timeline", items.map(line));
  const result = h("div.diff-place");
  const content = remember((version) => fetchText(`/v1/sources/${source.id}/versions/${version}/content`, { signal }));

  function update() {
    left.value = shown.from;
    right.value = shown.to;
    slider.value = shown.to;
    const then = items.find((item) => item.version === shown.to);
    put(moment, then && [whenWhole(then.ingested_at), `: version ${then.version}`]);
    for (const item of timeline.children) item.classList.toggle("picked", [shown.from, shown.to].includes(Number(item.dataset.version)));
    const { from, to } = shown;
    load(result, Promise.all([content(from), content(to)]), ([before, after]) => (from === to
      ? [h("p.muted", "The complete first version."), h("pre.verbatim.whole", after.slice(0, LONG))] : diffView(before, after)));
  }
  const edit = async () => {
    try { pasteDialog({ source, start: await content(newest) }); } catch (error) { failed(error); }
  };
  put(place, h("div.timeline-and-diff",
    h("section", { "aria-label": "Versions" },
      h("div.row.between", h("h2", "Timeline"), h("button.small", { type: "button", onclick: edit }, "New version")),
      newest > 1 && h("div.as-of", h("label", { for: "as-of" }, "As of"), slider, moment), timeline),
    h("section", { "aria-label": "Differences" },
      newest === 1 ? h("p.empty", "There is one version. Ingest changed text under the same path to see the differences here.") :
        [h("div.row.compare", h("span", "Compare"), left, h("span", "with"), right), result])));
  if (newest > 1) update();
}

/** Caches the results by argument. */
function remember(ask) {
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, ask(name));
    return known.get(name);
  };
}

export async function helper(place, source, route, signal) {
  const { items } = await get(`/v1/sources/${source.id}/helpers`, { signal });
  const again = () => helper(place, source, route, signal).catch(failed);
  const [current, ...earlier] = items;
  const origin = (item) => (item.origin === "user" ? "written by you" : "written by a model");
  const write = async (event) => {
    event.target.disabled = true;
    event.target.textContent = "Writing…";
    try {
      await post(`/v1/sources/${source.id}/helper/regenerate`);
      toast("The helper was rewritten");
    } catch (error) { failed(error); }
    again();
  };
  put(place,
    h("p.muted", "One paragraph that is part of every prompt about this source."),
    current ? h("blockquote.preview", current.text || "Empty: nothing is known about the source.") : h("p.empty", "This source has no helper yet."),
    current && h("p.muted", `Version ${current.version}, ${origin(current)}, ${count(current.token_count, "token")}, `, whenWhole(current.created_at)),
    h("div.row",
      h("button", { type: "button", onclick: () => edit(source, current, again) }, "Edit"),
      h("button", { type: "button", onclick: write }, "Let a model rewrite it")),
    earlier.length > 0 && h("details.earlier", h("summary", count(earlier.length, "earlier version")),
      h("ol.plain", earlier.map((item) => h("li", h("p.muted", `Version ${item.version}, ${origin(item)}, ${count(item.token_count, "token")}`), h("p", item.text))))));
}

function edit(source, current, after) {
  const known = (value) => value ?? "unknown";
  const form = helperForm({
    start: current ? { author: known(current.author), date: known(current.date), topic: known(current.topic), description: current.description ?? current.text } : {},
    preview: (fields) => post(`/v1/sources/${source.id}/helper/preview`, fields),
    confirm: async (fields) => {
      try {
        await call("PUT", `/v1/sources/${source.id}/helper`, { body: fields });
        box.close();
        after();
      } catch (error) { put(form, problem(error)); }
    },
    confirmLabel: "Save",
  });
  const box = dialog(`Helper of ${source.filename}`, form);
  box.querySelector("input").focus();
}
