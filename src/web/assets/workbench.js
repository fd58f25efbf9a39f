// The workbench: a task becomes a prompt of five blocks. The form is in `workbench-parts.js`, what comes out in
// `super-prompt.js`; nothing of a run is stored.

import { get, post, query } from "./api.js";
import { h, milliseconds, put } from "./dom.js";
import { head, problem } from "./parts.js";
import { BLOCKS, superPrompt } from "./super-prompt.js";
import { controls, readControls, workspacePanel } from "./workbench-parts.js";

const WHAT = { hard_rules: "what always holds", project_memory: "what the project is about", files: "the files that you inject, word for word", s_ctx: "what memoir knows about the task, cited", task: "what you ask, with role and form" };

/** The five blocks before there is a prompt. */
const emptyPrompt = () => h("section.super-prompt", { "aria-label": "The blocks of a prompt" }, h("h2", "Super-Prompt"), h("p.muted", "It will have up to five blocks, in the order of their authority."),
  Object.entries(WHAT).map(([name, words]) => h("div.block", { class: `block-${name}` }, h("h3", BLOCKS[name]), h("p", words))));

export async function show(main, route, signal) {
  put(main, head("Workbench", "\u00a0"));
  let known;
  try {
    const [workspace, models, sources, threads] = await Promise.all([get("/v1/workspace", { signal }), get("/v1/models", { signal }),
      get(query("/v1/sources", { newest_first: true, limit: 500 }), { signal }), get("/v1/threads?sort=-last_message_at&limit=100", { signal }).catch(() => ({ items: [] }))]);
    const info = await get("/v1/info", { signal });
    known = { info, workspace, models, sources: sources.items, hasMore: Boolean(sources.next_cursor), threads: threads.items };
  } catch (error) {
    if (error.name !== "AbortError") put(main, head("Workbench"), problem(error));
    return;
  }
  if (signal.aborted) return;
  const out = h("div.workbench-out");
  const go = h("button.primary.big", { type: "submit" }, "Compose");
  const stop = h("button", { type: "button", hidden: true }, "Cancel");
  const clock = h("span.muted.clock");
  const status = h("p.sr", { role: "status" });
  const stale = h("p.notice", { role: "status", hidden: true }, "Something has changed since this prompt was composed. Compose again to use the changes.");
  const rules = workspacePanel(known.workspace);
  const form = controls(known);
  form.querySelector("textarea").after(h("div.row.end.workbench-go", clock, stop, go), status);
  put(main, head("Workbench", "Write a task; memoir adds rules, files and what it knows, and shows why. You can change everything before it is sent."),
    known.info.llm.embedded && h("p.notice", "The embedded model works by fixed rules: it finds and cites sentences, but it writes none, and its reply quotes the prompt. Configure a language model for a reply in its own words; Status shows how."),
    h("div.workbench", h("div.workbench-in", form, rules), out));
  put(out, emptyPrompt());
  form.addEventListener("input", () => { stale.hidden = false; });
  rules.addEventListener("input", () => { stale.hidden = false; });

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
    put(out, h("p.waiting", "Composing…"));
    status.textContent = "Composing";
    try {
      const composed = await post("/v1/prompts", body, { signal: ending.signal });
      stale.hidden = true;
      put(out, stale, superPrompt(composed, body, known, signal));
      status.textContent = `Composed: ${composed.estimate.tokens} tokens`;
      out.querySelector("h2")?.focus({ preventScroll: true });
      if (out.getBoundingClientRect().top > innerHeight - 240) out.scrollIntoView({ block: "start" });
    } catch (error) {
      put(out, error.name === "AbortError" ? h("p.empty", "Cancelled.") : problem(error));
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
