// Earlier queries, and replays: recorded or live, compared with the original.

import { get, post, query } from "./api.js";
import { STRATEGIES, strategyName } from "./ask-form.js";
import { showResult } from "./ask-result.js";
import { count, dollars, h, milliseconds, number, put, when } from "./dom.js";
import { facts, paged, problem, say, categoryPath } from "./parts.js";

export function earlier(signal) {
  const list = h("ol.plain.asked");
  const pages = paged(list, (cursor) => get(query("/v1/queries", { limit: 15, cursor }), { signal }), (item) =>
    h("li", h("a", { href: `#/ask/${item.id}` }, item.query),
      h("p.muted", strategyName(item.strategy), " · ", item.state === "failed" ? "failed" : count(item.totals.calls, "call"), " · ", when(item.created_at))),
  h("p.empty", "No queries yet."));
  const box = h("section.panel", { "aria-label": "Earlier queries" }, h("h2", "Earlier queries"), list, pages.foot);
  box.refresh = () => pages.start();
  return box;
}

const signed = (value, form = number) => (value > 0 ? `+${form(value)}` : value < 0 ? `−${form(-value)}` : "the same");

function comparison(replay) {
  if (replay.identical === true) return h("p.good-words", "Identical: the same walk, the same chunks, the same answer.");
  const { leaves, ...changes } = replay.differences;
  const group = (name, paths, kind) => paths.length > 0 && h("div", h("h4", name), h("ul.plain", paths.map((path) => h("li", { class: kind }, categoryPath(path)))));
  return h("div.comparison",
    replay.identical === false && h("p.bad-words", "Not identical: something that the query depends on has changed, for example a source."),
    replay.error && h("p.bad-words", "The replay failed with ", h("code", replay.error), "."),
    facts(["Calls", signed(changes.calls)], ["Tokens in", signed(changes.tokens_prompt)], ["Tokens out", signed(changes.tokens_completion)],
      ["Cost", changes.cost_usd === null ? "–" : signed(changes.cost_usd, dollars)], ["Time", signed(changes.total_latency, milliseconds)]),
    h("div.leaves", group("Read by both", leaves.kept, ""), group("New in the replay", leaves.added, "plus"), group("No longer read", leaves.removed, "minus")));
}

/** Both kinds of replay. `isShown`: whether the page shows the result itself, so that an identical one is not repeated. */
export function replayPanel(receipt, sources, isShown) {
  const out = h("div.replay-out");
  const strategy = h("select", { "aria-label": "Strategy of the live replay" }, h("option", { value: "" }, "same strategy"),
    Object.keys(STRATEGIES).map((name) => h("option", { value: name }, strategyName(name))));
  const run = (mode) => async (event) => {
    event.target.disabled = true;
    const body = { mode };
    if (mode === "live" && strategy.value) body.strategy = strategy.value;
    put(out, h("p.muted", mode === "live" ? "Running again…" : "Replaying…"));
    try {
      const replay = await post(`/v1/queries/${receipt.id}/replay`, body);
      const kept = mode === "live" ? await get(`/v1/queries/${replay.result.id}`).catch(() => null) : receipt;
      put(out, h("h3", mode === "live" ? "Live replay, compared with the original" : "Replayed as recorded"), comparison(replay),
        !(replay.identical && isShown) && showResult(replay.result, replay.identical ? null : kept, sources));
      say(replay.identical ? "The replay is identical." : "The replay is shown below, compared with the original.");
    } catch (error) {
      put(out, problem(error));
    }
    event.target.disabled = false;
  };
  return h("section.replay", { "aria-label": "Replay" }, h("h2", "Replay"),
    h("p.muted", "A recorded replay calls no model and shows whether the result is still the same. A live replay calls the models again."),
    h("div.row", h("button", { type: "button", onclick: run("recorded") }, "Replay as recorded"),
      h("button", { type: "button", onclick: run("live") }, "Replay live"), strategy), out);
}
