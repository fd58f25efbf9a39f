// The hierarchy as a picture: levels from left to right, heights proportional to chunks. Owns drawing, zoom and
// keys: arrows move, Enter zooms in, Escape zooms out. Categories too small for a label form one box, "12 more".

import { count, number, s } from "./dom.js";

const LEVELS = 4;
const LEAST = 19; // Minimum height of a box in pixels: one line of text.
const GAP = 2;

/** The order of children: most chunks first, then by name. */
export const bySize = (a, b) => b.chunk_count - a.chunk_count || a.name.localeCompare(b.name);

/** Builds a tree of `{id, name, level, chunk_count, parent, children, hue}` under one root. */
export function grow(items) {
  const root = { id: 0, name: "Everything", level: 0, chunk_count: 0, parent: null, children: [] };
  const byId = new Map([[0, root]]);
  for (const item of items) byId.set(item.id, { ...item, children: [] });
  for (const item of items) {
    const node = byId.get(item.id);
    node.parent = byId.get(item.parent_id ?? 0) ?? root;
    node.parent.children.push(node);
  }
  // Every branch has a hue of its own. It follows the age of the branch, so it does not change as text is added.
  [...root.children].sort((a, b) => a.id - b.id).forEach((branch, index) => tint(branch, Math.round((172 + index * 137.5) % 360)));
  for (const node of byId.values()) node.children.sort(bySize);
  root.chunk_count = root.children.reduce((sum, node) => sum + node.chunk_count, 0);
  return { root, byId };
}

function tint(node, hue) {
  node.hue = hue;
  for (const child of node.children) tint(child, hue);
}

/** The nodes from level 1 down to this one. */
export function pathOf(node) {
  const names = [];
  for (let at = node; at && at.id !== 0; at = at.parent) names.unshift(at);
  return names;
}

/** The children from a place on, as one box. */
export function group(node, from) {
  const children = node.children.slice(from);
  return {
    id: `${node.id}+${from}`, from, isGroup: true, name: `${number(children.length)} more`, level: node.level + 1, parent: node, hue: node.hue, children,
    chunk_count: children.reduce((sum, child) => sum + child.chunk_count, 0),
  };
}

/** A category without chunks is drawn too. */
const weight = (node) => Math.max(node.chunk_count, 0.25);

function deepest(node) {
  return node.children.length ? 1 + Math.max(...node.children.map(deepest)) : 0;
}

/** The boxes of the children in a height: `[node, height]`; those too low for a label become one group. */
function divide(node, height) {
  const least = LEAST * unit();
  const total = node.children.reduce((sum, child) => sum + weight(child), 0);
  const shares = node.children.map((child) => height * (weight(child) / total));
  let whole = shares.findIndex((share) => share < least);
  if (whole < 0) return node.children.map((child, index) => [child, shares[index]]);
  // If all are small, as many as fit are drawn at the same height.
  if (whole === 0) {
    const fit = Math.min(node.children.length, Math.max(1, Math.floor(height / least)));
    const shown = fit === node.children.length ? node.children : [...node.children.slice(0, fit - 1), group(node, fit - 1)];
    return shown.map((child) => [child, height / fit]);
  }
  // The group gets at least one line, which the others give up.
  const rest = () => shares.slice(whole).reduce((sum, share) => sum + share, 0);
  while (whole > 0 && Math.max(rest(), least) + whole * least > height) whole -= 1;
  const needed = Math.max(rest(), Math.min(least, height));
  const scale = whole > 0 ? (height - needed) / (height - rest()) : 1;
  const last = node.children.length - whole === 1 ? node.children[whole] : group(node, whole);
  return [...node.children.slice(0, whole).map((child, index) => [child, shares[index] * scale]), [last, needed]];
}

/** The text scales with the font size of the page, and so does the space it needs. */
const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

/** The picture. It calls `onZoom(node)` after zooming. */
export function icicle(tree, onZoom) {
  const svg = s("svg", { class: "icicle", role: "tree", "aria-label": "The hierarchy: arrow keys move, Enter zooms in, Escape zooms out" });
  let focus = tree.root;
  let active = tree.root;
  /** id → [node, element] of what is drawn. */
  let drawn = new Map();

  const element = (node) => drawn.get(node?.id)?.[1];

  function draw() {
    const width = svg.clientWidth || 600;
    const height = svg.clientHeight || 400;
    const depth = Math.min(LEVELS, 1 + deepest(focus));
    // The first column only shows the current node, so it is narrower.
    const first = depth > 1 ? Math.min(width * 0.16, 130 * unit()) : width;
    const column = depth > 1 ? (width - first) / (depth - 1) : 0;
    drawn = new Map();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const place = (node, step, top, size) => {
      const x = step === 0 ? 0 : first + (step - 1) * column;
      const isOpen = node.children.length > 0 && step + 1 < depth && (!node.isGroup || node === focus);
      svg.append(cell(node, { x, y: top, width: (step === 0 ? first : column) - GAP, height: Math.max(1, size - GAP) }, isOpen));
      if (!isOpen) return;
      let at = top;
      for (const [child, share] of divide(node, size)) {
        place(child, step + 1, at, share);
        at += share;
      }
    };
    place(focus, 0, 0, height);
    if (!drawn.has(active.id)) active = focus;
    element(active).setAttribute("tabindex", "0");
  }

  function cell(node, box, isOpen) {
    const size = unit();
    const room = Math.floor((box.width - 16) / (7.2 * size));
    const lines = [];
    if (box.height >= 15 * size && room > 2) lines.push(node.name.length > room ? `${node.name.slice(0, room - 1)}…` : node.name);
    if (box.height >= 36 * size && room > 2) lines.push(room > 9 ? count(node.chunk_count, "chunk") : number(node.chunk_count));
    const kind = node.isGroup ? "group" : `level-${node.level === 0 ? 0 : Math.min(node.level, 3)}`;
    const item = s("g", {
      role: "treeitem", tabindex: "-1", class: `cell ${kind}${node.chunk_count ? "" : " none"}`,
      "aria-level": node.level + 1,
      "aria-expanded": node.children.length ? String(isOpen) : null, "aria-selected": String(node === focus), "data-id": node.id,
      transform: `translate(${box.x} ${box.y})`,
    },
    // Screen readers use the title as the name.
    s("title", {}, `${node.name}: ${count(node.chunk_count, "chunk")}`),
    s("rect", { width: box.width, height: box.height, rx: Math.min(4, box.height / 2) }),
    lines.map((line, index) => s("text", { x: 8, y: (lines.length === 1 ? Math.min(box.height / 2 + 4.5 * size, 20 * size) : 18 * size) + index * 17 * size, class: index ? "small" : "" }, line)));
    if (node.hue !== undefined) item.style.setProperty("--hue", String(node.hue));
    item.addEventListener("click", () => {
      active = node;
      // The first column is the current node: a click on it zooms out.
      zoom(node === focus && node.parent ? node.parent : node, true);
    });
    item.addEventListener("focus", () => { active = node; });
    drawn.set(node.id, [node, item]);
    return item;
  }

  function move(to) {
    if (!element(to)) return;
    element(active)?.setAttribute("tabindex", "-1");
    active = to;
    element(to).setAttribute("tabindex", "0");
    element(to).focus();
  }

  /** The neighbour in the same column, `step` places away. */
  function beside(step) {
    const column = [...drawn.values()].map(([node]) => node).filter((node) => node.level === active.level);
    return column[column.findIndex((node) => node.id === active.id) + step];
  }

  /** The next one in the order of reading. */
  function next() {
    const all = [...drawn.values()].map(([node]) => node);
    return all[all.indexOf(active) + 1];
  }

  const firstChild = () => [...drawn.values()].map(([node]) => node).find((node) => node !== focus && (node.parent?.id === active.id || active.children.includes(node)));

  function zoom(node, keepFocus) {
    focus = node;
    active = node;
    onZoom(node);
    draw();
    if (keepFocus) element(node).focus({ preventScroll: true });
  }

  svg.addEventListener("keydown", (event) => {
    const keys = {
      ArrowRight: () => move(firstChild()),
      ArrowLeft: () => move(element(active.parent) ? active.parent : focus),
      ArrowDown: () => move(beside(1) ?? next()),
      ArrowUp: () => move(beside(-1) ?? active.parent),
      Home: () => move(focus),
      End: () => move([...drawn.values()].at(-1)[0]),
      Enter: () => zoom(active, true),
      " ": () => zoom(active, true),
      Escape: () => focus.parent && zoom(focus.parent, true),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const resized = new ResizeObserver(() => {
    const had = svg.contains(document.activeElement);
    draw();
    if (had) element(active).focus({ preventScroll: true });
  });
  resized.observe(svg);
  const start = (node) => {
    focus = node;
    active = node;
  };
  /** Shows a node without telling `onZoom`. */
  const go = (node, keepFocus) => {
    start(node);
    draw();
    if (keepFocus) element(node).focus({ preventScroll: true });
  };
  return { svg, zoom: (node) => zoom(node, false), start, go };
}
