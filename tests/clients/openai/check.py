"""Runs the examples of docs/openai.md, and calls what they leave out with OpenAI's client for Python.

MEMOIR_URL names the service, whose provider `openai` is provider.py. NODE_FOLDER can import `openai` for JavaScript.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import openai

URL = os.environ["MEMOIR_URL"]
FOLDER = Path(os.environ["NODE_FOLDER"])
MODEL = "openai:gpt-4o-mini"
COMMANDS = {
    "sh": lambda text: ["bash", "-euc", text],
    "python": lambda text: [sys.executable, "-c", text],
    "js": lambda text: ["node", "--input-type=module", "--eval", text],
}
# What each example prints, in order.
EXPECTED = {"sh": "Noted.", "python": "In Bergen.", "js": "In Bergen."}


def check_examples():
    page = Path("docs/openai.md").read_text()
    examples = re.findall(r"^```(sh|python|js)\n(.*?)^```$", page, re.S | re.M)
    assert [language for language, _ in examples] == ["sh", "python", "js"], examples
    for language, text in examples:
        command = COMMANDS[language](text.replace("http://127.0.0.1:8080", URL))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=FOLDER if language == "js" else None)
        assert done.returncode == 0, f"{language}: {done.stderr}"
        assert EXPECTED[language] in done.stdout, f"{language}: {done.stdout}"


def client(thread="", **more):
    headers = {"X-Memoir-Thread": thread, "X-Memoir-User": "ann"} if thread else {}
    return openai.OpenAI(base_url=f"{URL}/openai/v1", api_key="unused", default_headers=headers, max_retries=0, **more)


def check_models_and_embeddings():
    assert MODEL in [model.id for model in client().models.list()]
    found = client().embeddings.create(model=MODEL, input="boat", encoding_format="float")
    assert found.data[0].embedding == [0.5, 0.25], found


def check_headers_and_usage():
    question = [{"role": "user", "content": "Where do I moor my boat?"}]
    raw = client("fourth").chat.completions.with_raw_response.create(model=MODEL, messages=question)
    assert raw.headers["x-memoir-memories"], raw.headers
    assert raw.parse().choices[0].message.content == "In Bergen."
    for asked in (True, False):
        options = {"stream_options": {"include_usage": True}} if asked else {}
        chunks = list(client("fourth").chat.completions.create(model=MODEL, messages=question, stream=True, **options))
        assert [chunk for chunk in chunks if not chunk.choices and not asked] == [], chunks
        assert (chunks[-1].usage is not None) == asked, chunks


def check_responses():
    reply = client("fifth").responses.create(model=MODEL, input="Where do I moor my boat?")
    assert reply.output_text == "In Bergen.", reply
    try:
        client("fifth").responses.create(model=MODEL, input="And now?", previous_response_id="r1")
    except openai.BadRequestError as error:
        assert error.code == "unsupported_parameter", error
    else:
        raise AssertionError("previous_response_id was accepted")


def check_errors():
    try:
        client().chat.completions.create(model="local:embedded", messages=[{"role": "user", "content": "Hi"}])
    except openai.BadRequestError as error:
        assert error.code == "model_not_supported", error
    else:
        raise AssertionError("the embedded model was accepted")


for check in (check_examples, check_models_and_embeddings, check_headers_and_usage, check_responses, check_errors):
    check()
    print(f"passed: {check.__name__}")
