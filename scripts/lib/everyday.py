"""Whether contexts answer everyday questions: starts memoir with the embedded model, stores the chats and facts of one
user (tests/data/everyday) and asks 45 questions: 30 about what was said once, 9 about what has changed, 6 about what was
never said.

A context is right if lines match all expressions of its question and `found` is true; of what has changed, the newer
line must come first, or the older one be marked `earlier` ("dates": both only have their dates); of what was never
said, `found` must be false. Prints the wrong ones, and totals by kind.

Usage: everyday.py BINARY"""

import collections
import json
import re
import sys
import tempfile
import time

from ask import Service, lines

DATA = "tests/data/everyday"
USER = "ines"
EARLIER = re.compile(r"^- \[[^\]]*, earlier\]")


def store(service):
    threads = collections.defaultdict(list)
    for message in lines(DATA, "messages.jsonl"):
        threads[message.pop("thread")].append(message)
    for title, messages in threads.items():
        thread = service.post("/v1/threads", {"title": title, "user_id": USER}, "default")["id"]
        service.post(f"/v1/threads/{thread}/messages", {"messages": messages}, "default")
    for fact in lines(DATA, "facts.jsonl"):
        service.post("/v1/memories", {**fact, "user_id": USER}, "default")
    while any(service.get(f"/v1/jobs?state={state}&limit=1", "default")["items"] for state in ("queued", "running")):
        time.sleep(0.3)


def entries(text):
    """The memories of a context; the further lines of one are joined to its first."""
    found = []
    for line in text.splitlines():
        if line.startswith("- "):
            found.append(line)
        elif line.startswith("  ") and found:
            found[-1] += " " + line.strip().lstrip("|").strip()
    return found


def places(pattern, found):
    return [place for place, line in enumerate(found) if re.search(pattern, line, re.I)]


def judge(question, context):
    """The verdict, and the reason."""
    found = entries(context["context"])
    if question["kind"] == "never":
        return ("wrong" if context["found"] else "right"), f"found is {context['found']}"
    missing = [pattern for pattern in question["expect"] if not places(pattern, found)]
    if missing or not context["found"]:
        return "wrong", f"no line matches {missing}" if missing else "found is false"
    if question["kind"] == "said":
        return "right", ""

    newer = max(places(pattern, found)[0] for pattern in question["expect"])
    older = set(places(question["older"], found)) - {place for one in question["expect"] for place in places(one, found)}
    unmarked = [place for place in older if place < newer and not EARLIER.search(found[place])]
    return ("dates" if unmarked else "right"), f"the newer is line {newer + 1}, the older {sorted(older)}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        service = Service(sys.argv[1], folder)
        try:
            store(service)
            totals = collections.defaultdict(collections.Counter)
            for question in lines(DATA, "questions.jsonl"):
                context = service.post("/v1/context", {"query": question["question"], "user_id": USER}, "default")
                verdict, why = judge(question, context)
                for kind in (question["kind"], "all"):
                    totals[kind][verdict] += 1
                if verdict != "right":
                    print(f"{verdict:<6} {question['kind']:<8} {question['question']} ({why})")
            for kind, counts in totals.items():
                print(f"{kind:<8} " + json.dumps(counts))
        finally:
            service.process.terminate()
            service.process.wait()


if __name__ == "__main__":
    main()
