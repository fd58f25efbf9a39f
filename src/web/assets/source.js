// The view of one source: its chunks, its text, its versions and their differences, and its helper.

import { call, get } from "./api.js";
import { change, eligibility, userTags } from "./library.js";
import { bytes, h, number, put, when, whenWhole, words } from "./dom.js";
import { fullWhenFiled } from "./full.js";
import { jobCard } from "./job-card.js";
import { isOver, jobs, listen } from "./live.js";
import { confirm, dialog, facts, failed, field, problem, showFieldErrors, toast } from "./parts.js";
import { chunks, helper, text, versions } from "./source-parts.js";

const PARTS = { chunks: "Chunks", text: "Text", versions: "Versions", helper: "Helper" };
const SHOW = { chunks, text, versions, helper };

export async function show(main, route, signal) {
  const part = PARTS[route.part] ? route.part : "chunks";
  const place = h("div.part", { "aria-busy": "true" });
  const top = h("div.source-top");
  const running = h("div.active-jobs");
  const full = h("div", { role: "status" });
  put(main, h("p.back", h("a", { href: "#/library" }, "Library")), top, full, running, place);
  let source;
  try {
    source = await get(`/v1/sources/${encodeURIComponent(route.id)}`, { signal });
  } catch (error) {
    if (error.name !== "AbortError") put(main, h("p.back", h("a", { href: "#/library" }, "Library")), problem(error));
    return;
  }
  document.title = `${source.filename} · memoir`;
  const latest = source.latest_version > 0 ? await get(`/v1/sources/${source.id}/versions/${source.latest_version}`, { signal }) : null;
  const tabs = h("nav.tabs", { "aria-label": "Parts of the source" }, Object.entries(PARTS).map(([name, title]) =>
    h("a", { href: `#/library/${source.id}/${name}`, "aria-current": name === part ? "page" : null }, title)));
  const head = () => put(top,
    h("div.head", h("div", h("h1", { tabindex: "-1" }, source.filename), h("p.path", source.path)),
      h("div.row",
        h("button", { type: "button", onclick: () => editTags(source, head) }, "Tags"),
        h("button.danger", { type: "button", onclick: () => remove(source) }, "Delete"))),
    facts(
      ["Tags", userTags(source).length ? userTags(source).map((tag) => h("span.tag", tag)) : h("span.muted", "none")],
      ["Versions", number(source.latest_version)],
      ["Size", latest ? `${bytes(latest.size_bytes)}, ${number(latest.token_count)} tokens` : "–"],
      ["Filed", latest ? whenWhole(latest.ingested_at) : "–"],
      ["Updated", when(source.updated_at)],
      ["In use", eligibility(source, head)]),
    tabs);
  head();
  fullWhenFiled(source.id, signal).then((places) => put(full, places), () => {});
  watchJobs(source, running, signal, () => { if (!signal.aborted) show(main, route, signal).catch(failed); });
  place.removeAttribute("aria-busy");
  if (!latest) {
    put(place, h("p.empty", "No text has been ingested yet."));
    return;
  }
  try {
    await SHOW[part](place, source, route, signal);
  } catch (error) {
    if (error.name !== "AbortError") put(place, problem(error));
  }
}

/** Shows the ingestion of a new version, and redraws the page once it is filed. */
function watchJobs(source, running, signal, again) {
  const cards = new Map();
  const update = (entry) => {
    if (entry.job.source_id !== source.id) return;
    if (!cards.has(entry.job.id)) {
      if (isOver(entry.job)) return;
      cards.set(entry.job.id, jobCard(entry));
      running.append(cards.get(entry.job.id));
    }
    cards.get(entry.job.id).update();
    if (entry.job.state === "succeeded" && !entry.following) {
      toast(`${source.filename}: version ${entry.job.result?.version ?? ""} is filed`);
      again();
    }
  };
  jobs().forEach(update);
  listen(update, signal);
}

function editTags(source, after) {
  const input = h("input", { type: "text", value: userTags(source).join(", "), autocomplete: "off" });
  const trouble = h("div");
  const form = h("form", trouble, field("Tags", input, { hint: "Separated by commas.", name: "tags" }),
    h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Save")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await change(source, { tags: ["file_ingest", ...words(input.value)] });
      box.close();
      after();
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
    }
  });
  const box = dialog(`Tags of ${source.filename}`, form);
  input.focus();
}

async function remove(source) {
  const sure = await confirm(`Delete ${source.filename}?`,
    `This permanently deletes all versions (${number(source.latest_version)}) and their chunks. Receipts of queries that used them keep only numbers.`, "Delete permanently");
  if (!sure) return;
  try {
    const { etag } = await call("GET", `/v1/sources/${source.id}`);
    await call("DELETE", `/v1/sources/${source.id}`, { headers: { "If-Match": etag } });
    toast(`${source.filename} was deleted`);
    location.hash = "#/library";
  } catch (error) {
    failed(error);
  }
}
