// Calls memoir through the AI SDK. MEMOIR_URL names the service, whose provider is provider.py.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const openai = createOpenAI({
  baseURL: `${process.env.MEMOIR_URL}/openai/v1`,
  apiKey: "unused",
  headers: { "X-Memoir-Thread": "ai-sdk", "X-Memoir-User": "sdk" },
});
const chat = openai.chat("openai:gpt-4o-mini");

const told = await generateText({ model: chat, prompt: "I moor my boat in Bergen." });
assert.equal(told.text, "Noted.");
const streamed = streamText({ model: chat, prompt: "Where do I moor my boat?" });
let text = "";
for await (const piece of streamed.textStream) text += piece;
assert.equal(text, "In Bergen.");
// Its default calls /responses.
const response = await generateText({ model: openai("openai:gpt-4o-mini"), prompt: "Where exactly do I moor my boat?" });
assert.equal(response.text, "In Bergen.");
console.log("passed: AI SDK");
