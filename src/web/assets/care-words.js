// What a change of the hierarchy does, in plain sentences.

import { count } from "./dom.js";

const MAX_SENTENCES = 6;

const EFFECTS = {
  merged: ({ name }, into) => `The category ${name} is closed; ${into} takes its place.`,
  removed: ({ name }) => `The category ${name} is closed.`,
  moved: ({ name }, into) => `The category ${name} moves to ${into}.`,
  created: ({ name }) => `The new category ${name} is created.`,
  reopened: ({ name }) => `The category ${name} is open again.`,
  renamed: ({ name }) => `The category is called ${name} again.`,
};

const other = ({ name }) => `The category ${name} changes.`;

/** Sentences about an outcome; none if nothing changes. `nameOf(id)` names a category. */
export function sentencesOf({ categories, chunks_moved: chunks }, nameOf, isUndo = false) {
  // A change ends with the category that it is about, and an undo begins with it; here it comes first.
  const ordered = isUndo ? categories : categories.toReversed();
  const effects = ordered.map((one) => (EFFECTS[one.effect] ?? other)(one, nameOf(one.into_id)));
  const left = effects.length - MAX_SENTENCES;
  if (left > 0) effects.splice(MAX_SENTENCES, left, `${count(left, "more category changes", "more categories change")}.`);
  if (chunks > 0) effects.unshift(`${count(chunks, "chunk moves", "chunks move")} ${isUndo ? "back" : `to ${targetOf(categories, nameOf)}`}.`);
  return effects;
}

/** Where the chunks go, if that is one category. */
function targetOf(categories, nameOf) {
  const [first, ...others] = categories;
  if (others.length === 0 && first?.effect === "created") return first.name;
  return others.length === 0 && first?.effect === "merged" ? nameOf(first.into_id) : "other leaves";
}
