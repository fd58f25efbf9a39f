// The first visit: what memoir does, a sample to ingest with one click, and questions to try.

import { get, post } from "./api.js";
import { h, put, s } from "./dom.js";
import { watch } from "./live.js";
import { problem } from "./parts.js";

const SAMPLE = "assets/sample.json";
/** What the sample can answer; here, so that a visit of a filled library need not load the sample. */
const QUESTIONS = ["How long should the loaf wait before it is cut?", "When does the ferry to Sør leave?", "When is the old catalogue switched off, and why not earlier?", "What is the reserve for, and how large should it be?"];
const STEPS = [
  ["You ingest text", "Notes, minutes, manuals. Every chunk is stored word for word."],
  ["A model files it", "Level by level, in a hierarchy that grows with your text. You can watch."],
  ["You ask", "memoir searches, walks down the hierarchy where needed, and answers from the chunks it finds, with citations and a receipt."],
];

/** Opens the question and asks it, where that costs nothing. */
export const questionLink = (question) => `#/ask?ask=1&question=${encodeURIComponent(question)}`;

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
    preview(),
    h("section.panel.start", { "aria-label": "Try it" }, h("h2", "Try it with a sample"),
      h("p", "Eight short sources about everyday things, and four questions. The embedded model files them in a few seconds: no key, no cost, and nothing leaves this machine."),
      go, trouble));
}

/** Boxes of the picture: column, first and last row of twelve, hue. */
const BOXES = [[0, 0, 5, 172], [0, 5, 9, 310], [0, 9, 12, 87], [1, 0, 3, 172], [1, 3, 5, 172], [1, 5, 9, 310], [1, 9, 12, 87], [2, 0, 2, 172], [2, 2, 3, 172], [2, 3, 5, 172], [2, 5, 7, 310], [2, 7, 9, 310], [2, 9, 12, 87]];

/** A picture of what comes out: a hierarchy, and an answer with its source. */
function preview() {
  const boxes = BOXES.map(([column, from, to, hue]) => {
    const box = s("g", { class: `cell level-${column + 1}${hue === 310 && (column < 2 || from === 5) ? " way" : ""}` }, s("rect", { x: column * 134, y: from * 15, width: 130, height: (to - from) * 15 - 3, rx: 4 }));
    box.style.setProperty("--hue", String(hue));
    return box;
  });
  return h("figure.glance",
    s("svg", { viewBox: "0 0 398 178", role: "img", "aria-label": "A hierarchy of three levels, with one path marked" }, boxes),
    h("div.glance-answer", h("p.glance-question", "When does the ferry leave?"),
      h("p.answer-text", "The ferry to Sør leaves at 9:15 and 14:30. ", h("span.cite", "[12]")),
      h("p.muted", "harbour-town.md › Getting there · word for word")),
    h("figcaption.muted", "What comes out: your text in a hierarchy, and answers that name their source."));
}

/** Questions that the sample can answer; shown while the sample exists. */
export function triedQuestions() {
  const box = h("section.panel.try", { "aria-label": "Questions to try", hidden: true });
  box.reveal = () => {
    put(box, h("h2", "Ask the sample"), h("ul.plain", QUESTIONS.map((question) => h("li", h("a", { href: questionLink(question) }, question)))));
    box.hidden = false;
  };
  get("/v1/sources?tag=sample&limit=1").then((page) => { if (page.items.length) box.reveal(); }, () => { /* the list shows the error */ });
  return box;
}
