"""How much of the evidence contexts contain: starts memoir with the embedded model, stores conversations (each chat is
the thread of a user of its own) and asks for the context of their questions.

Prints, per chat, the share of the evidence among the memories of `POST /v1/context`, as they come by default and for
each rank, and among the first 20 of `POST /v1/search`.

Usage: contexts.py BINARY DATA [CHATS]"""

import collections
import concurrent.futures
import datetime
import sys
import tempfile
import time

from ask import Service, lines

RESULTS = 20
PER_REQUEST = 500
# What is asked for: the default, and each rank by its name.
ASKED = {"default": {}, "staged": {"rank": "staged"}, "search": {"rank": "search"}}


def moment(text):
    """The time of a message, whose data has it as people write it."""
    for form in ("%d.%m.%Y, %H:%M:%S", "%I:%M %p on %d %B, %Y"):
        try:
            return datetime.datetime.strptime(text, form).strftime("%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            continue
    return None


def store(service, chat, messages):
    """Stores a chat whose first speaker is the user; returns its thread, and the message of each memory."""
    thread = service.post("/v1/threads", {"user_id": chat}, "default")["id"]
    user, known = messages[0]["speaker"], {}
    for start in range(0, len(messages), PER_REQUEST):
        some = messages[start:start + PER_REQUEST]
        body = [{"role": "user" if one["speaker"] == user else "assistant", "name": one["speaker"], "content": one["text"],
                 **({"created_at": at} if (at := moment(one["at"])) else {})} for one in some]
        stored = service.post(f"/v1/threads/{thread}/messages", {"messages": body}, "default")
        for item, one in zip(stored["items"], some):
            known.setdefault(item["id"], one["id"])
    return thread, known


def settle(service, chat):
    """Waits until every message is classified, as the stages need it."""
    path = f"/v1/memories?user_id={chat}&type=message&enrichment_state=pending&limit=1"
    while service.get(path, "default")["items"]:
        time.sleep(0.2)


def shares(service, chat, known, question, evidence):
    """The share of the evidence in each kind of result."""
    found = {}
    for name, settings in ASKED.items():
        body = {"query": question, "user_id": chat, "max_tokens": 100_000, **settings}
        memories = service.post("/v1/context", body, "default")["memories"][:RESULTS]
        found[name] = {known.get(one["id"]) for one in memories}
    body = {"query": question, "scope": "memories", "k": RESULTS, "filters": {"user_id": chat}}
    found["/v1/search"] = {known.get(one["memory_id"]) for one in service.post("/v1/search", body, "default")["items"]}
    return {name: len(evidence & ids) / len(evidence) for name, ids in found.items()}


def main():
    binary, data = sys.argv[1], sys.argv[2]
    chats = sys.argv[3].split(",") if len(sys.argv) > 3 else [str(number) for number in range(1, 9)]
    chats = [f"chat{number}" for number in chats]
    evidence = collections.defaultdict(set)
    with open(f"{data}/conversation/evidence.tsv", encoding="utf-8") as file:
        for line in file:
            question, message, _ = line.rstrip("\n").split("\t")
            evidence[question].add(message)
    messages, questions = lines(data, "conversation/messages.jsonl"), lines(data, "conversation/questions.jsonl")

    with tempfile.TemporaryDirectory() as folder:
        service = Service(binary, folder)
        try:
            measure(service, chats, messages, questions, evidence)
        finally:
            service.process.terminate()
            service.process.wait()


def measure(service, chats, messages, questions, evidence):
    names = [*ASKED, "/v1/search"]
    print(f"share of the evidence among {RESULTS} memories")
    print(f"{'chat':<8}{'questions':>10}" + "".join(f"{name:>12}" for name in names), flush=True)
    pool, rows = concurrent.futures.ThreadPoolExecutor(2), []
    for chat in chats:
        _, known = store(service, chat, [one for one in messages if one["thread"] == chat])
        settle(service, chat)
        own = [one for one in questions if one["thread"] == chat and evidence[one["id"]]]
        each = list(pool.map(lambda one: shares(service, chat, known, one["text"], evidence[one["id"]]), own))
        report(chat, each, names)
        rows += each
    report("all", rows, names)


def report(title, rows, names):
    means = [sum(row[name] for row in rows) / max(len(rows), 1) for name in names]
    print(f"{title:<8}{len(rows):>10}" + "".join(f"{mean:>12.3f}" for mean in means), flush=True)


if __name__ == "__main__":
    main()
