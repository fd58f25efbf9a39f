// The Ask view: the form, the estimate, and running the query. `ask-result.js` shows the result.

import { all, get, post, stream } from "./api.js";
import { choices, readForm, settingsForm, strategyName } from "./ask-form.js";
import { earlier, replayPanel } from "./ask-history.js";
import { curl, live, results, showResult } from "./ask-result.js";
import { count, dollars, h, milliseconds, number, put, settle } from "./dom.js";
import { copyButton, head, problem, sentence } from "./parts.js";

export async function show(main, route, signal) {
  const [info, models, sources] = await Promise.all([
    get("/v1/info", { signal }), get("/v1/models", { signal }).catch(() => null), all("/v1/sources", {}, 1000).catch(() => ({ items: [] }))]);
  let receipt = null;
  let missing = null;
  if (route.id) {
    try { receipt = await get(`/v1/queries/${encodeURIComponent(route.id)}`, { signal }); } catch (error) { missing = error; }
  }
  if (signal.aborted) return;
  const start = receipt?.parameters ?? { query: route.get("question") ?? "", strategy: route.get("strategy") ?? undefined };
  const form = settingsForm({ info, models, sources: sources.items, start });
  const result = h("div.result", { "aria-live": "off" });
  const history = h("aside.side");
  const status = h("p.sr", { role: "status" });
  const go = h("button.primary.big", { type: "submit" }, "Ask");
  const stopButton = h("button", { type: "button", hidden: true }, "Stop");
  const clock = h("span.muted.clock");
  const bound = h("p.bound", "\u00a0");
  const code = h("pre.curl", { tabindex: "0", role: "region", "aria-label": "The request as curl" });
  form.append(h("div.ask-line", bound, h("div.row.end", clock, stopButton, go)));
  put(main, head("Ask", info.llm.embedded ? "The embedded model answers with sentences from the chunks; it writes none of its own." : `${info.llm.model} answers from the chunks that are found, with citations.`),
    h("div.ask", h("div.ask-main", form,
      h("details.request", h("summary", "The request as curl"), code, copyButton(() => code.textContent)), status, result), history));

  const update = settle(async () => {
    const body = readForm(form);
    code.textContent = curl(body);
    try {
      const estimate = await post("/v1/queries/estimate", { ...body, query: body.query || "?" }, { signal });
      showEstimate(form, bound, estimate, body.strategy);
    } catch (error) {
      if (error.name !== "AbortError") bound.textContent = sentence(error.detail);
    }
  }, 250);
  form.addEventListener("input", update);
  form.addEventListener("change", update);
  update();

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const stop = new AbortController();
    stopButton.onclick = () => stop.abort();
    signal.addEventListener("abort", () => stop.abort());
    go.disabled = true;
    stopButton.hidden = false;
    const began = performance.now();
    const ticking = setInterval(() => { clock.textContent = milliseconds(performance.now() - began); }, 100);
    const body = readForm(form);
    const progress = live(body.strategy);
    put(result, progress.element);
    status.textContent = "Asking";
    try {
      const answer = await stream("/v1/queries", body, progress, stop.signal);
      results.set(answer.id, answer);
      const kept = await get(`/v1/queries/${answer.id}`).catch(() => null);
      // Going back from a chunk leads to this answer, not to an empty form.
      if (kept) window.history.replaceState(null, "", `#/ask/${answer.id}`);
      put(result, showResult(answer, kept, sources.items), kept && replayPanel(kept, sources.items, true));
      status.textContent = answer.answer ? `Answered: ${answer.answer}` : answer.found === false ? "memoir does not know this." : `${count(answer.chunks.length, "chunk")} found`;
      // The button that had the focus is busy, so reading goes on at the answer.
      result.querySelector(".answer-title")?.focus({ preventScroll: true });
      bringIntoView(result);
    } catch (error) {
      if (error.name === "AbortError") put(result, h("p.empty", "Stopped."));
      else put(result, problem(error), error.context?.responses && showResult(error.context, await get(`/v1/queries/${error.context.id}`).catch(() => null), sources.items));
      status.textContent = "";
    } finally {
      clearInterval(ticking);
      clock.textContent = "";
      go.disabled = false;
      stopButton.hidden = true;
      if (document.activeElement === document.body) go.focus({ preventScroll: true });
      list.refresh();
    }
  });

  const list = earlier(signal);
  put(history, list);
  list.refresh();
  if (missing) put(result, problem(missing));
  if (receipt) put(result, showResult(results.get(receipt.id), receipt, sources.items), replayPanel(receipt, sources.items, results.has(receipt.id)));
  // A sample question is asked at once where that is free. Any other is filled in but not sent: it may cost money.
  if (route.get("ask") && info.llm.embedded) form.requestSubmit();
  else if (route.get("question")) go.focus();
  else if (!receipt) form.querySelector("textarea").focus({ preventScroll: true });
}

/** An answer that starts below the window is brought up; the space of the header stays free. */
function bringIntoView(result) {
  if (result.getBoundingClientRect().top > innerHeight - 240 || innerHeight < 700) result.scrollIntoView({ block: "start" });
}

/** Shows the upper bound of each strategy on its card, and the chosen one in full. */
function showEstimate(form, bound, estimate, chosen) {
  for (const item of estimate.strategies) {
    const place = form.querySelector(`[data-estimate="${item.strategy}"]`);
    if (place) place.textContent = `at most ${number(item.calls)} ${item.calls === 1 ? "call" : "calls"}`;
  }
  const item = estimate.strategies.find((other) => other.strategy === (chosen ?? choices.strategy));
  if (!item) return;
  put(bound, "At most ", h("strong", `${number(item.calls)} calls`), `, ${number(item.tokens_prompt)} tokens in, ${number(item.tokens_completion)} out, ${dollars(item.cost_usd)} · ${strategyName(item.strategy)} · ${estimate.model}`);
}

