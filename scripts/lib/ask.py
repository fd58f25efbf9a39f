"""How well queries find evidence: starts memoir with the embedded model, ingests conversations (each message a text of
its own) and asks their questions with `memoir eval`.

Prints, per group of chats, the share of the evidence that `auto` returns within 8,000 tokens (mode `retrieve`) and that
a search has in its first 20, and how well `confidence` tells questions of a chat from questions of other collections
(the area under the curve: 0.5 is chance). Fails if `auto` is below the search on any chat.

Usage: ask.py BINARY DATA [CHATS]"""

import collections
import concurrent.futures
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BUDGET = 8000
GROUPS = [("chats 1-5", range(1, 6), 0.70), ("chats 6-8", range(6, 9), 0.80)]
LEVELS = {"low": 1, "medium": 2, "high": 3}
WANTED_AUC = 0.85


def lines(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Service:
    def __init__(self, binary, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        settings = {
            "MEMOIR__DATABASE__URL": f"sqlite://{folder}/memoir.db",
            "MEMOIR__SERVER__LISTEN": self.address,
            "MEMOIR__LLM__MODEL": "local:embedded",
            "MEMOIR__MEMORY__RATE_LIMIT": "0",
        }
        log = open(os.path.join(folder, "memoir.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen([binary, "serve"], env={**os.environ, **settings}, stdout=log, stderr=log)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://{self.address}/health/ready")
                return
            except OSError:
                time.sleep(0.1)
        sys.exit(f"memoir does not start; see {log.name}")

    def get(self, path, space):
        return self.send(path, None, space)

    def post(self, path, body, space):
        return self.send(path, json.dumps(body).encode(), space)

    def send(self, path, data, space):
        headers = {"content-type": "application/json", "x-memoir-space": space}
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)


def path_of(message_id):
    return "/" + message_id.replace(":", "_") + ".txt"


def ingest(service, message):
    body = {"text": message["text"], "path": path_of(message["id"]), "wait": True}
    job = service.post("/v1/ingestions", body, message["thread"])
    assert job["state"] == "succeeded", job


def evaluate(binary, service, space, cases):
    """The plain search and `auto`, as `memoir eval` measures them."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(case) + "\n" for case in cases)
        file.flush()
        options = ["--strategy", "auto", "--retrieve", "--budget", str(BUDGET), "-k", "20", "--json"]
        connection = ["--server", f"http://{service.address}", "--space", space]
        command = [binary, "eval", *connection, *options, file.name]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["runs"]


def area(positive, negative):
    """The share of pairs in which the positive one is higher; ties count half."""
    counts = collections.Counter(negative)
    pairs = sum(
        count * (1.0 if one > other else 0.5 if one == other else 0.0)
        for one in positive
        for other, count in counts.items()
    )
    return pairs / (len(positive) * len(negative))


def main():
    binary, data = sys.argv[1], sys.argv[2]
    chats = {int(chat) for chat in sys.argv[3].split(",")} if len(sys.argv) > 3 else set(range(1, 9))
    wanted = {f"chat{chat}" for chat in chats}
    messages = [one for one in lines(data, "conversation/messages.jsonl") if one["thread"] in wanted]
    evidence = collections.defaultdict(set)
    with open(os.path.join(data, "conversation/evidence.tsv"), encoding="utf-8") as file:
        for line in file:
            question, message, _ = line.rstrip("\n").split("\t")
            evidence[question].add(message)
    questions = lines(data, "conversation/questions.jsonl")
    questions = [one for one in questions if one["thread"] in wanted and evidence[one["id"]]]
    foreign = {
        "science": [one["text"] for name in ("cranfield", "cisi") for one in lines(data, f"retrieval/{name}/queries.jsonl")[:50]],
        "banking": [one["text"] for one in lines(data, "filing/banking77.jsonl")[::25]],
    }

    with tempfile.TemporaryDirectory() as folder:
        service = Service(binary, folder)
        try:
            measure(binary, service, messages, questions, evidence, foreign)
        finally:
            service.process.terminate()
            service.process.wait()


def measure(binary, service, messages, questions, evidence, foreign):
    pool = concurrent.futures.ThreadPoolExecutor(8)
    list(pool.map(lambda message: ingest(service, message), messages))
    threads = sorted({question["thread"] for question in questions})
    level = lambda item: LEVELS[item["confidence"]] if item["found"] else 0
    asked = []
    for thread in threads:
        own = [one for one in questions if one["thread"] == thread]
        known = [{"question": one["text"], "sources": [path_of(message) for message in sorted(evidence[one["id"]])]} for one in own]
        search, auto = evaluate(binary, service, thread, known)
        for one, other in zip(auto["items"], search["items"]):
            asked.append((thread, one["evidence"], one["evidence_at_k"], other["evidence_at_k"], level(one), one["elapsed_ms"]))

    mean = lambda values: sum(values) / max(len(values), 1)
    faults = []
    print(f"evidence recall: auto within {BUDGET} tokens / its first 20 / search@20")
    for name, numbers, least in GROUPS:
        rows = [row for row in asked if int(row[0][4:]) in numbers]
        if not rows:
            continue
        figures = [mean([row[place] for row in rows]) for place in (1, 2, 3)]
        print(f"  {name}: {len(rows)} questions  {figures[0]:.3f} / {figures[1]:.3f} / {figures[2]:.3f}")
        if figures[0] < least:
            faults.append(f"{name} below {least}")
        for chat in sorted({row[0] for row in rows}):
            mine = [row for row in rows if row[0] == chat]
            auto, search = mean([row[1] for row in mine]), mean([row[3] for row in mine])
            print(f"    {chat}: {auto:.3f} / {mean([row[2] for row in mine]):.3f} / {search:.3f}")
            if auto < search:
                faults.append(f"auto below search on {chat}")

    own = [row[4] for row in asked]
    print(f"answerable: {sum(one > 0 for one in own) / len(own):.3f} found, {sum(one == 3 for one in own) / len(own):.3f} high")
    for name, texts in foreign.items():
        cases = [{"question": text, "found": False} for text in texts]
        levels = [level(item) for thread in threads for item in evaluate(binary, service, thread, cases)[1]["items"]]
        auc, by_confidence = area(own, levels), area([max(one, 1) for one in own], [max(one, 1) for one in levels])
        nothing = sum(one == 0 for one in levels) / len(levels)
        print(f"foreign ({name}): AUC {auc:.3f} with found, {by_confidence:.3f} by confidence alone; {nothing:.3f} not found")
        if by_confidence < WANTED_AUC:
            faults.append(f"AUC on {name} below {WANTED_AUC}")
    times = sorted(row[5] for row in asked)
    print(f"time: p50 {times[len(times) // 2]:.1f} ms, p99 {times[len(times) * 99 // 100]:.1f} ms")
    if faults:
        sys.exit("; ".join(faults))


if __name__ == "__main__":
    main()
