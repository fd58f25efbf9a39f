// The first visit: what memoir does, a sample to file with one click, and questions to try.

import { get, post } from "./api.js";
import { h, put } from "./dom.js";
import { watch } from "./live.js";
import { problem } from "./parts.js";

const SAMPLE = "assets/sample.json";
const STEPS = [
  ["You bring text in", "Notes, minutes, manuals. Every chunk is kept word for word."],
  ["A model files it", "Level by level, under a hierarchy that grows as it goes. You can watch."],
  ["You ask", "A model walks down the hierarchy and answers from what lies there, with its sources and a receipt."],
];

export const questionLink = (question) => `#/ask?strategy=wide_branch&question=${encodeURIComponent(question)}`;

/** Files the sample, with the embedded model: it costs nothing and nothing leaves this machine. */
async function fileSample() {
  const sample = await get(SAMPLE);
  for (const document of sample.documents) {
    watch(await post("/v1/ingestions", { ...document, options: sample.options }), document.title);
  }
}

export function welcome(onSample) {
  const trouble = h("div");
  const go = h("button.primary.big", { type: "button" }, "File the sample");
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
      h("p", "Eight short documents about everyday things, and four questions. The embedded model files them in a few seconds: no key, no cost, and nothing leaves this machine."),
      go, trouble));
}

/** Questions that the sample answers; shown while the sample is there. */
export function triedQuestions() {
  const box = h("section.panel.try", { "aria-label": "Questions to try", hidden: true });
  box.reveal = async () => {
    const sample = await get(SAMPLE).catch(() => null);
    if (!sample) return;
    put(box, h("h2", "Ask the sample"), h("ul.plain", sample.questions.map((question) => h("li", h("a", { href: questionLink(question) }, question)))));
    box.hidden = false;
  };
  get("/v1/sources?tag=sample&limit=1").then((page) => { if (page.items.length) box.reveal(); }, () => { /* the list beside tells why */ });
  return box;
}
