// The first visit: what memoir does, a sample to ingest with one click, and questions to try.

import { get, post } from "./api.js";
import { h, put } from "./dom.js";
import { watch } from "./live.js";
import { problem } from "./parts.js";

const SAMPLE = "assets/sample.json";
const STEPS = [
  ["You ingest text", "Notes, minutes, manuals. Every chunk is stored word for word."],
  ["A model files it", "Level by level, in a hierarchy that grows with your text. You can watch."],
  ["You ask", "A model walks down the hierarchy and answers from the chunks it finds, with citations and a receipt."],
];

export const questionLink = (question) => `#/ask?strategy=wide_branch&question=${encodeURIComponent(question)}`;

/** Ingests the sample with the embedded model, which costs nothing and sends nothing to other machines. */
async function fileSample() {
  const sample = await get(SAMPLE);
  for (const source of sample.sources) {
    watch(await post("/v1/ingestions", { ...source, options: sample.options }), source.title);
  }
}

export function welcome(onSample) {
  const trouble = h("div");
  const go = h("button.primary.big", { type: "button" }, "Ingest the sample");
  go.addEventListener("click", async () => {
    go.disabled = true;
    put(trouble);
    onSample();
    try {
      await fileSample();
    } catch (error) {
      put(trouble, problem(error));
      go.disabled = false;
    }
  });
  return h("section.welcome",
    h("h1", { tabindex: "-1" }, "A memory that shows its work"),
    h("ol.steps", STEPS.map(([name, words]) => h("li", h("strong", name), h("span", words)))),
    h("section.panel.start", { "aria-label": "Try it" }, h("h2", "Try it with a sample"),
      h("p", "Eight short sources about everyday things, and four questions. The embedded model files them in a few seconds: no key, no cost, and nothing leaves this machine."),
      go, trouble));
}

/** Questions that the sample can answer; shown while the sample exists. */
export function triedQuestions() {
  const box = h("section.panel.try", { "aria-label": "Questions to try", hidden: true });
  box.reveal = async () => {
    const sample = await get(SAMPLE).catch(() => null);
    if (!sample) return;
    put(box, h("h2", "Ask the sample"), h("ul.plain", sample.questions.map((question) => h("li", h("a", { href: questionLink(question) }, question)))));
    box.hidden = false;
  };
  get("/v1/sources?tag=sample&limit=1").then((page) => { if (page.items.length) box.reveal(); }, () => { /* the list shows the error */ });
  return box;
}
