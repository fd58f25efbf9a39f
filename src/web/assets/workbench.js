// The workbench: a task becomes a prompt of five blocks. The form is in `workbench-parts.js`, what comes out in
// `super-prompt.js`. Nothing of a run is stored; the page keeps it until it is closed or shows another space.

import { access, get, post, query } from "./api.js";
import { h, milliseconds, put } from "./dom.js";
import { head, problem } from "./parts.js";
import { BLOCKS, superPrompt } from "./super-prompt.js";
import { controls, fill, filled, readControls, workspacePanel } from "./workbench-parts.js";

const WHAT = { hard_rules: "what always holds", project_memory: "what the project is about", files: "the files that you inject, word for word", s_ctx: "what memoir knows about the task, cited", task: "what you ask, with role and form" };

/** The five blocks before there is a prompt. */
const emptyPrompt = () => h("section.super-prompt", { "aria-label": "The blocks of a prompt" }, h("h2", "Super-Prompt"), h("p.muted", "It will have up to five blocks, in the order of their authority."),
  Object.entries(WHAT).map(([name, words]) => h("div.block", { class: `block-${name}` }, h("h3", BLOCKS[name]), h("p", words))));

/** What was typed and what came out, so that following a link and going back loses nothing. */
let kept = null;

export async function show(main, route, signal) {
  const place = JSON.stringify(access);
  if (kept?.place !== place) kept = null;
  put(main, head("Workbench", "\u00a0"));
  let known;
  try {
    const [workspace, models, sources, threads] = await Promise.all([get("/v1/workspace", { signal }), get("/v1/models", { signal }),
      get(query("/v1/sources", { newest_first: true, limit: 500 }), { signal }), get("/v1/threads?sort=-last_message_at&limit=100", { signal }).catch(() => ({ items: [] }))]);
    const info = await get("/v1/info", { signal });
    known = { info, workspace, models, sources, threads: threads.items };
  } catch (error) {
    if (error.name !== "AbortError") put(main, head("Workbench"), problem(error));
    return;
  }
  if (signal.aborted) return;
  const go = h("button.primary.big", { type: "submit" }, "Compose");
  const stop = h("button", { type: "button", hidden: true }, "Cancel");
  const clock = h("span.muted.clock");
  const status = h("p.sr", { role: "status" });
  const { out, stale } = kept ?? {
    out: h("div.workbench-out", emptyPrompt()),
    stale: h("p.notice", { role: "status", hidden: true }, "Something has changed since this prompt was composed. Compose again to use the changes."),
  };
  const rules = workspacePanel(known.workspace);
  const form = controls(known, kept, signal);
  if (kept) fill(rules, kept.values);
  form.querySelector("textarea").after(h("div.row.end.workbench-go", clock, stop, go), status);
  put(main, head("Workbench", "Write a task; memoir adds rules, files and what it knows, and shows why. You can change everything before it is sent."),
    known.info.llm.embedded && h("p.notice", "The embedded model works by fixed rules: it finds and cites sentences, but it writes none, and its reply quotes the prompt. Configure a language model for a reply in its own words; Status shows how."),
    h("div.workbench", h("div.workbench-in", form, rules), out));
  form.addEventListener("input", () => { stale.hidden = false; });
  rules.addEventListener("input", () => { stale.hidden = false; });
  signal.addEventListener("abort", () => {
    // Rules that are saved may be changed elsewhere meanwhile, and are then read anew.
    const unsaved = [...filled(rules)].filter(([name, value]) => value !== known.workspace[name]);
    kept = { place, out, stale, values: new Map([...filled(form), ...unsaved]), pool: form.pool };
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!(await rules.save())) return;
    const body = { ...readControls(form), run_id: crypto.randomUUID() };
    const ending = new AbortController();
    signal.addEventListener("abort", () => ending.abort());
    stop.onclick = () => {
      post(`/v1/runs/${body.run_id}/cancel`).catch(() => { /* it was over */ });
      ending.abort();
    };
    const began = performance.now();
    const ticking = setInterval(() => { clock.textContent = milliseconds(performance.now() - began); }, 100);
    go.disabled = true;
    stop.hidden = false;
    const before = [...out.childNodes];
    put(out, h("p.waiting", "Composing…"));
    status.textContent = "Composing";
    try {
      const composed = await post("/v1/prompts", body, { signal: ending.signal });
      stale.hidden = true;
      put(out, stale, superPrompt(composed, body));
      status.textContent = `Composed: ${composed.estimate.tokens} tokens`;
      out.querySelector("h2")?.focus({ preventScroll: true });
      if (out.getBoundingClientRect().top > innerHeight - 240) out.scrollIntoView({ block: "start" });
    } catch (error) {
      put(out, error.name === "AbortError" ? [h("p.empty", "Cancelled."), before] : problem(error));
      status.textContent = "";
    } finally {
      clearInterval(ticking);
      clock.textContent = "";
      go.disabled = false;
      stop.hidden = true;
    }
  });
  form.querySelector("textarea").focus({ preventScroll: true });
}
