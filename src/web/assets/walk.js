// The walk of a query, level by level: the options, the choices with their ranks, and the dropped paths with the
// reason. Columns from left to right, joined by lines along the paths; stacked on narrow screens.

import { count, h, milliseconds, number, s } from "./dom.js";

const MAX_SHOWN = 8;

export const REASONS = {
  not_selected: "nothing below it was chosen", not_leaf: "it has no leaf below it", empty: "it has no chunks", pruned: "it did not fit the budget",
  limited: "earlier paths used up the chunk limit",
};

/** Why a chosen option was dropped later. */
function reasonOf(label, level, dropped) {
  const hit = dropped.find(({ path }) => path.length === level && (path.join(" / ") === label || path.at(-1) === label));
  return hit && (REASONS[hit.reason] ?? hit.reason);
}

function column(level, calls, dropped) {
  const mine = calls.filter((call) => call.stage === "select" && call.level === level.level);
  const chosen = [...level.chosen].sort((a, b) => b.ranked_relevance - a.ranked_relevance);
  const items = chosen.map((choice, index) => {
    const reason = reasonOf(choice.label, level.level, dropped);
    return h("li.option.chosen", { class: reason ? "dead" : "", "data-category": choice.category_id },
      h("span.rank", { title: "Rank; 1 is the best" }, String(index + 1)),
      h("a.option-name", { href: `#/hierarchy/${choice.category_id}`, title: choice.label }, choice.label.split(" / ").pop()),
      reason && h("span.option-why", reason));
  });
  const others = level.rejected.map((option) => h("li.option", h("span.option-name", { title: option.label }, option.label.split(" / ").pop()), h("span.sr", "not chosen")));
  const hidden = others.length > MAX_SHOWN ? others.splice(MAX_SHOWN) : [];
  const list = h("ul.options", items, others);
  if (hidden.length) {
    const more = h("li.option-more", h("button.link", { type: "button", onclick: () => { more.remove(); list.append(...hidden); } }, `${number(hidden.length)} more, not chosen`));
    list.append(more);
  }
  const tokens = mine.reduce((all, call) => all + call.tokens_prompt + call.tokens_completion, 0);
  const time = mine.reduce((all, call) => all + call.latency_ms, 0);
  // Level 0 is the choice of `auto` among the leaves that the search found.
  const name = level.level === 0 ? "Picked" : `Level ${level.level}`;
  return h("section.walk-level", { "aria-label": name },
    h("header", h("h3", name),
      h("p.muted", `${number(level.options.length)} offered, ${number(level.chosen.length)} chosen`, level.asked && `, ${number(level.max_selectable)} allowed`),
      h("p.muted.walk-cost", level.asked ? `${number(tokens)} tokens, ${milliseconds(time)}${mine.length > 1 ? `, ${number(mine.length)} attempts` : ""}` : "no model call")),
    list);
}

function lastColumn(receipt, calls) {
  const mine = calls.filter((call) => call.stage !== "select");
  const tokens = mine.reduce((all, call) => all + call.tokens_prompt + call.tokens_completion, 0);
  const time = mine.reduce((all, call) => all + call.latency_ms, 0);
  const used = new Set(receipt.used_chunk_ids);
  return h("section.walk-level.last", { "aria-label": "Reading" },
    h("header", h("h3", receipt.mode === "answer" ? "Read and answered" : "Read"),
      h("p.muted", count(receipt.paths.reduce((all, path) => all + path.chunk_ids.length, 0), "chunk")),
      h("p.muted.walk-cost", mine.length ? `${number(tokens)} tokens, ${milliseconds(time)}` : "no model call")),
    h("ul.options", receipt.paths.map((path) => {
      const kept = path.chunk_ids.filter((id) => used.has(id)).length;
      return h("li.option.chosen.read", { class: kept === 0 && receipt.mode === "answer" ? "unread" : "", "data-path": path.ids.at(-1) }, h("span.option-name", count(path.chunk_ids.length, "chunk")),
        receipt.mode === "answer" && h("span.option-why", `${number(kept)} used`));
    })));
}

/** Draws a line between consecutive categories of each path. */
function connect(box, paths) {
  const lines = s("svg", { class: "walk-lines", "aria-hidden": "true" });
  box.prepend(lines);
  const draw = () => {
    const frame = box.getBoundingClientRect();
    lines.replaceChildren();
    lines.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    const seen = new Set();
    for (const path of paths) {
      const inColumn = (column) => path.ids.map((id) => column.querySelector(`[data-category="${id}"]`)).find(Boolean);
      const stops = [...[...box.querySelectorAll(".walk-level")].map(inColumn).filter(Boolean), box.querySelector(`[data-path="${path.ids.at(-1)}"]`)];
      for (let index = 0; index + 1 < stops.length; index += 1) {
        const [from, to] = [stops[index]?.getBoundingClientRect(), stops[index + 1]?.getBoundingClientRect()];
        // Stacked columns have no lines.
        if (!from || !to || to.left < from.right) continue;
        const [x1, y1, x2, y2] = [from.right - frame.left, from.top + from.height / 2 - frame.top, to.left - frame.left, to.top + to.height / 2 - frame.top];
        const bend = (x2 - x1) / 2;
        const d = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
        if (!seen.has(d)) lines.append(s("path", { d }));
        seen.add(d);
      }
    }
  };
  new ResizeObserver(draw).observe(box);
}

export function walk(receipt, calls) {
  const box = h("div.walk", receipt.levels.map((level) => column(level, calls, receipt.dropped_paths)), lastColumn(receipt, calls));
  connect(box, receipt.paths);
  return h("section", { "aria-label": "The walk" }, h("h2", "The walk"), h("div.walk-scroll", { tabindex: "0", role: "region", "aria-label": "The walk, level by level" }, box));
}
