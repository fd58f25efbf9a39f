// Compares two texts line by line and shows the differences. It does not use the API.

import { h, number } from "./dom.js";

/** Beyond this many edits the exact comparison is too slow, and the middle is shown as replaced. */
const MAX_EDITS = 2000;

/** Myers' shortest edit script: `[kind, line]` with kind " ", "-" or "+". */
export function compare(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (lines) => lines.map((line) => [" ", line]);
  return [
    ...same(a.slice(0, start)),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...same(end ? a.slice(-end) : []),
  ];
}

function middle(a, b) {
  const most = Math.min(a.length + b.length, MAX_EDITS);
  const reach = new Map([[1, 0]]);
  const history = [];
  for (let edits = 0; edits <= most; edits += 1) {
    history.push(new Map(reach));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) ?? 0 : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(history, a, b);
    }
  }
  return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
}

function walkBack(history, a, b) {
  const lines = [];
  let x = a.length;
  let y = b.length;
  for (let edits = history.length - 1; edits >= 0; edits -= 1) {
    const reach = history[edits];
    const k = x - y;
    const down = k === -edits || (k !== edits && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const fromX = edits === 0 ? 0 : reach.get(from) ?? 0;
    const fromY = edits === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      lines.push([" ", a[x]]);
    }
    if (edits === 0) break;
    if (down) lines.push(["+", b[y -= 1]]);
    else lines.push(["-", a[x -= 1]]);
  }
  return lines.reverse();
}

/** The words of a changed line, with the changed ones marked. */
function marked(line, other) {
  const a = line.split(/(\s+)/);
  const b = other.split(/(\s+)/);
  if (a.length > 400 || b.length > 400) return [line];
  return middle(a, b).filter(([kind]) => kind !== "+").map(([kind, word]) => (kind === "-" && word.trim() ? h("mark", word) : word));
}

const AROUND = 3;

/** The differences as a table with line numbers; equal lines far from a change are folded. */
export function diffView(before, after) {
  const lines = compare(before, after);
  const added = lines.filter(([kind]) => kind === "+").length;
  const removed = lines.filter(([kind]) => kind === "-").length;
  if (added + removed === 0) return h("p.empty", "The versions are identical.");
  const near = new Set();
  lines.forEach(([kind], index) => {
    if (kind !== " ") for (let other = index - AROUND; other <= index + AROUND; other += 1) near.add(other);
  });
  const body = h("tbody");
  let left = 0;
  let right = 0;
  let folded = 0;
  const fold = () => {
    if (folded > 0) body.append(h("tr.fold", h("td", { colspan: "4" }, `${number(folded)} equal ${folded === 1 ? "line" : "lines"}`)));
    folded = 0;
  };
  lines.forEach(([kind, line], index) => {
    if (kind !== "+") left += 1;
    if (kind !== "-") right += 1;
    if (!near.has(index)) { folded += 1; return; }
    fold();
    body.append(row(kind, line, partner(lines, index), left, right));
  });
  fold();
  return h("div.diff-box",
    h("p.diff-sum", h("span.plus", `${number(added)} added`), h("span.minus", `${number(removed)} removed`)),
    h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Differences" },
      h("table.diff", h("caption.sr", "Differences, line by line"),
        h("thead", h("tr", ["Line before", "Line after", "Change", "Text"].map((name) => h("th", { scope: "col" }, h("span.sr", name))))), body)));
}

/** The counterpart of a single changed line, used to mark the changed words. */
function partner(lines, index) {
  const [kind] = lines[index];
  if (kind === " ") return null;
  const step = kind === "-" ? 1 : -1;
  const other = lines[index + step];
  const beyond = lines[index + 2 * step];
  const behind = lines[index - step];
  const alone = behind?.[0] !== kind && other && other[0] !== " " && other[0] !== kind && beyond?.[0] !== other[0];
  return alone ? other[1] : null;
}

function row(kind, line, other, left, right) {
  const name = kind === "+" ? "plus" : kind === "-" ? "minus" : "same";
  const word = kind === "+" ? "added" : kind === "-" ? "removed" : "";
  return h("tr", { class: name },
    h("td.line", kind === "+" ? "" : String(left)), h("td.line", kind === "-" ? "" : String(right)),
    h("td.sign", kind.trim(), word && h("span.sr", word)),
    h("td.text", other === null ? line : marked(line, other)));
}
