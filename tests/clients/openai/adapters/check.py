"""Calls memoir through LangChain's ChatOpenAI. MEMOIR_URL names the service, whose provider is provider.py."""

import os

from langchain_openai import ChatOpenAI

MODEL = ChatOpenAI(
    model="openai:gpt-4o-mini",
    base_url=f"{os.environ['MEMOIR_URL']}/openai/v1",
    api_key="unused",
    default_headers={"X-Memoir-Thread": "langchain", "X-Memoir-User": "lang"},
)

assert MODEL.invoke("I moor my boat in Bergen.").content == "Noted."
whole = MODEL.invoke("Where do I moor my boat?")
assert whole.content == "In Bergen.", whole
streamed = "".join(chunk.content for chunk in MODEL.stream("Where exactly do I moor my boat?"))
assert streamed == "In Bergen.", streamed
print("passed: LangChain")
