// Care of the hierarchy by a person: what can be done with a category, a chunk, a proposal or an earlier change.
// Each opens the dialogue and resolves to `{words, change, category}` once it is applied: what was done, the number
// of the change that undoes it, and the category to show next. It resolves to null if it was not applied.

import { all, call, get, post, query } from "./api.js";
import { careDialog } from "./care-dialog.js";
import { sentencesOf } from "./care-words.js";
import { namesOf } from "./category-pick.js";
import { grow } from "./icicle.js";

const namer = (tree) => (id) => tree.byId.get(id)?.name ?? "another category";

/** The categories of a level, those below the same parent first. */
function ofLevel(tree, level, besides, parent) {
  const nodes = [...tree.byId.values()].filter((node) => node.id && node.level === level && node.id !== besides);
  const path = (node) => namesOf(node).join(" ");
  return nodes.sort((a, b) => (b.parent === parent) - (a.parent === parent) || path(a).localeCompare(path(b)));
}

const orderOf = (path, body) => (target, dryRun) => post(path, { ...body(target), dry_run: dryRun });

/** The latest change of a kind, for answers that do not name it. */
async function changeOf(category, isIt) {
  const { items } = await get(query("/v1/categories/changes", { category_id: category, limit: 10 }));
  return items.find((change) => isIt(change) && !change.undone_at)?.id ?? null;
}

export async function moveCategory(node, tree) {
  const parents = ofLevel(tree, node.level - 1, node.parent.id, node.parent.parent);
  const done = await careDialog({
    title: `Move ${node.name}`, action: "Move", pick: { label: "New parent", nodes: parents },
    send: orderOf(`/v1/categories/${node.id}/move`, (id) => ({ parent_id: id })),
    words: (answer) => sentencesOf(answer, namer(tree)),
  });
  return done && { words: `Moved ${node.name} to ${namer(tree)(done.target)}.`, change: done.answer.change?.id, category: node.id };
}

export async function mergeCategory(node, tree) {
  const done = await careDialog({
    title: `Merge ${node.name}`, action: "Merge", about: `Another category takes the place of ${node.name} and gets everything in it.`,
    pick: { label: "Merge into", nodes: ofLevel(tree, node.level, node.id, node.parent) },
    send: orderOf(`/v1/categories/${node.id}/merge`, (id) => ({ into: id })),
    words: (answer) => sentencesOf(answer, namer(tree)),
  });
  return done && { words: `Merged ${node.name} into ${namer(tree)(done.target)}.`, change: done.answer.change?.id, category: done.target };
}

export async function splitCategory(node, tree) {
  const done = await careDialog({
    title: `Split ${node.name}`, action: "Split", about: "Chunks about the same get a leaf of their own beside this one.",
    send: orderOf(`/v1/categories/${node.id}/split`, () => ({})),
    words: (answer) => sentencesOf(answer, namer(tree)), nothing: "No group of its chunks has a name of its own: nothing would change.",
  });
  return done && { words: `Split ${node.name}.`, change: done.answer.change?.id, category: node.id };
}

export async function removeCategory(node, tree) {
  const done = await careDialog({
    title: `Remove ${node.name}`, action: "Remove", about: `${node.name} is closed. Receipts keep its name.`,
    pick: { label: "Category that gets what is in it", nodes: ofLevel(tree, node.level, node.id, node.parent), isOptional: true },
    send: async (into, dryRun) => (await call("DELETE", query(`/v1/categories/${node.id}`, { into, dry_run: dryRun }))).data,
    words: (answer) => sentencesOf(answer, namer(tree)),
  });
  if (!done) return null;
  const change = await changeOf(node.id, ({ kind }) => kind === "remove");
  return { words: `Removed ${node.name}.`, change, category: done.target ?? node.parent.id };
}

/** Without a hierarchy, it is read first. */
export async function moveChunk(chunk, known) {
  const { tree, depth } = known ?? await hierarchy();
  const leaf = tree.byId.get(chunk.category_id);
  const words = ({ category_path: path }) => [`Chunk ${chunk.chunk_id} moves to ${path.join(" › ")}.`, "It stays there, also when its source is ingested again."];
  const done = await careDialog({
    title: `Move chunk ${chunk.chunk_id}`, action: "Move", pick: { label: "New leaf", nodes: ofLevel(tree, depth, chunk.category_id, leaf?.parent) },
    send: async (leaf, dryRun) => (await call("PATCH", `/v1/chunks/${chunk.chunk_id}`, { body: { category_id: leaf, dry_run: dryRun } })).data,
    words,
  });
  if (!done) return null;
  const change = await changeOf(done.target, ({ kind, chunk_id: id }) => kind === "move_chunk" && id === chunk.chunk_id);
  return { words: `Moved chunk ${chunk.chunk_id} to ${done.answer.category_path.join(" › ")}.`, change, category: chunk.category_id, chunk: done.answer };
}

/** The whole hierarchy as a tree, and the number of its levels. */
export async function hierarchy() {
  const { items, depth } = await all("/v1/categories/tree");
  return { tree: grow(items), depth };
}

/** Applies the request of a proposal. A rename has no dry run: its request says what changes. */
export async function applyProposal(item, tree) {
  const { method, path, body } = item.apply;
  const isRename = method === "PATCH";
  const done = await careDialog({
    title: "Apply the proposal", action: "Apply", about: `${item.path.join(" › ")}: ${item.evidence}.`,
    send: async (_, dryRun) => {
      if (isRename && dryRun) return null;
      if (method === "DELETE") return (await call(method, `${path}${path.includes("?") ? "&" : "?"}dry_run=${dryRun}`)).data;
      return (await call(method, path, { body: isRename ? body : { ...body, dry_run: dryRun } })).data;
    },
    words: (answer) => (isRename ? [`The category ${item.path.at(-1)} is renamed to ${body.name}.`] : sentencesOf(answer, namer(tree))),
  });
  if (!done) return null;
  const kind = isRename ? "rename" : "remove";
  const change = done.answer?.change?.id ?? await changeOf(item.category_id, (one) => one.kind === kind);
  return { words: `Applied: ${item.path.at(-1)}.`, change, category: item.category_id };
}

/** Undoes an earlier change, described by `about`. */
export async function undoChange(change, about, tree) {
  const done = await careDialog({
    title: "Undo a change", action: "Undo", about,
    send: (_, dryRun) => post(`/v1/categories/changes/${change.id}/undo`, { dry_run: dryRun }),
    words: (answer) => sentencesOf(answer, namer(tree), true),
  });
  return done && { words: "The change is undone.", change: null };
}
