// The hierarchy as a picture: levels from left to right, heights proportional to chunks. Owns drawing, zoom and
// keys: arrows move, Enter zooms in, Escape zooms out.

import { count, s } from "./dom.js";

const LEVELS = 4;
const LEAST = 3; // Minimum height in pixels; smaller categories appear after zooming in.
const GAP = 2;

/** Builds a tree of `{id, name, level, chunk_count, parent, children}` under one root. */
export function grow(items) {
  const root = { id: 0, name: "Everything", level: 0, chunk_count: 0, parent: null, children: [] };
  const byId = new Map([[0, root]]);
  for (const item of items) byId.set(item.id, { ...item, children: [] });
  for (const item of items) {
    const node = byId.get(item.id);
    node.parent = byId.get(item.parent_id ?? 0) ?? root;
    node.parent.children.push(node);
  }
  for (const node of byId.values()) node.children.sort((a, b) => b.chunk_count - a.chunk_count || a.name.localeCompare(b.name));
  root.chunk_count = root.children.reduce((sum, node) => sum + node.chunk_count, 0);
  return { root, byId };
}

/** The nodes from level 1 down to this one. */
export function pathOf(node) {
  const names = [];
  for (let at = node; at && at.id !== 0; at = at.parent) names.unshift(at);
  return names;
}

/** The picture. It calls `onZoom(node)` after zooming and `onDraw(left)` with the number of nodes too small to draw. */
export function icicle(tree, onZoom, onDraw) {
  const svg = s("svg", { class: "icicle", role: "tree", "aria-label": "The hierarchy: arrow keys move, Enter zooms in, Escape zooms out" });
  let focus = tree.root;
  let active = tree.root;
  let drawn = new Map();

  function draw() {
    const width = svg.clientWidth || 600;
    const height = svg.clientHeight || 400;
    const depth = Math.min(LEVELS, 1 + deepest(focus));
    // The first column only shows the current node, so it is narrower.
    const first = depth > 1 ? Math.min(width * 0.16, 130) : width;
    const column = depth > 1 ? (width - first) / (depth - 1) : 0;
    drawn = new Map();
    let left = 0;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const place = (node, step, top, size) => {
      const x = step === 0 ? 0 : first + (step - 1) * column;
      const box = { x, y: top, width: (step === 0 ? first : column) - GAP, height: Math.max(1, size - GAP) };
      svg.append(cell(node, box));
      if (step + 1 >= depth) return;
      let at = top;
      const total = node.children.reduce((sum, child) => sum + weight(child), 0);
      for (const child of node.children) {
        const share = size * (weight(child) / total);
        if (share >= LEAST) place(child, step + 1, at, share);
        else left += 1;
        at += share;
      }
    };
    place(focus, 0, 0, height);
    onDraw(left);
    if (!drawn.has(active.id)) active = focus;
    drawn.get(active.id).setAttribute("tabindex", "0");
  }

  function cell(node, box) {
    // The text scales with the font size of the page, and so does the space it needs.
    const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    const room = Math.floor((box.width - 16) / (7.2 * unit));
    const lines = [];
    if (box.height >= 17 * unit && room > 2) lines.push(node.name.length > room ? `${node.name.slice(0, room - 1)}…` : node.name);
    if (box.height >= 36 * unit && room > 2) lines.push(String(node.chunk_count));
    const group = s("g", {
      role: "treeitem", tabindex: "-1", class: `cell level-${node.level === 0 ? 0 : ((node.level - 1) % 6) + 1}${node.chunk_count ? "" : " none"}`,
      "aria-level": node.level + 1,
      "aria-expanded": node.children.length ? String(node === focus) : null, "aria-selected": String(node === focus), "data-id": node.id,
      transform: `translate(${box.x} ${box.y})`,
    },
    // Screen readers use the title as the name.
    s("title", {}, `${node.name}: ${count(node.chunk_count, "chunk")}`),
    s("rect", { width: box.width, height: box.height, rx: Math.min(4, box.height / 2) }),
    lines.map((line, index) => s("text", { x: 8, y: (lines.length === 1 ? Math.min(box.height / 2 + 4.5 * unit, 20 * unit) : 18 * unit) + index * 17 * unit, class: index ? "small" : "" }, line)));
    group.addEventListener("click", () => {
      active = node;
      // The first column is the current node: a click on it zooms out.
      zoom(node === focus && node.parent ? node.parent : node, true);
    });
    group.addEventListener("focus", () => { active = node; });
    drawn.set(node.id, group);
    return group;
  }

  function move(to) {
    if (!to || !drawn.has(to.id)) return;
    drawn.get(active.id)?.setAttribute("tabindex", "-1");
    active = to;
    const element = drawn.get(to.id);
    element.setAttribute("tabindex", "0");
    element.focus();
  }

  /** The neighbour in the same column, `step` places away. */
  function beside(step) {
    const level = [...drawn.keys()].map((id) => tree.byId.get(id)).filter((node) => node.level === active.level);
    return level[level.indexOf(active) + step];
  }

  function zoom(node, keepFocus) {
    focus = node;
    active = node;
    draw();
    if (keepFocus) drawn.get(node.id).focus({ preventScroll: true });
    onZoom(node);
  }

  svg.addEventListener("keydown", (event) => {
    const keys = {
      ArrowRight: () => move(active.children.find((child) => drawn.has(child.id))),
      ArrowLeft: () => move(active.parent),
      ArrowDown: () => move(beside(1)),
      ArrowUp: () => move(beside(-1)),
      Home: () => move(focus),
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
    if (had) drawn.get(active.id).focus({ preventScroll: true });
  });
  resized.observe(svg);
  return { svg, zoom: (node) => zoom(node, false), start: (node) => { focus = node; active = node; } };
}

/** A category without chunks is drawn too. */
const weight = (node) => Math.max(node.chunk_count, 0.25);

function deepest(node) {
  return node.children.length ? 1 + Math.max(...node.children.map(deepest)) : 0;
}
