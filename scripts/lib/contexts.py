"""How much of the evidence memoir hands to a model: starts memoir with the embedded model, stores conversations (each
chat is the thread of a user of its own) and asks for the memories of their questions.

Prints, per chat, the share of the evidence among the first 10 and the first 20 memories of `POST /v1/context` for each
rank, of `POST /v1/memory/retrieve` and of `POST /v1/search`; how often a context says that something was found; which
part of the evidence among the first 10 of the search passes the default `minScore`; and the time that each call takes.

Usage: contexts.py BINARY DATA [CHATS]"""

import collections
import concurrent.futures
import datetime
import sys
import tempfile
import time

from ask import Service, lines

RESULTS = (10, 20)
PER_REQUEST = 500
RANKS = ("auto", "search", "staged")
CALLS = (*RANKS, "retrieve", "/v1/search")


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


def ask(service, chat, thread, question):
    """The ids of the memories that each call returns, the seconds it takes, and what else is counted."""
    ids, seconds, found = {}, {}, None

    def timed(name, path, body):
        begun = time.perf_counter()
        answer = service.post(path, body, "default")
        seconds[name] = time.perf_counter() - begun
        return answer

    for rank in RANKS:
        answer = timed(rank, "/v1/context", {"query": question, "user_id": chat, "max_tokens": 100_000, "rank": rank})
        ids[rank] = [one["id"] for one in answer["memories"]]
        found = answer["found"] if rank == "auto" else found
    body = {"query": question, "userId": chat, "sessionId": thread, "useMemory": True, "topK": 10}
    answer = timed("retrieve", "/v1/memory/retrieve", body)
    ids["retrieve"] = [one["id"] for one in answer["memories"]]
    body = {"query": question, "scope": "memories", "k": max(RESULTS), "filters": {"user_id": chat}}
    answer = timed("/v1/search", "/v1/search", body)
    ids["/v1/search"] = [one["memory_id"] for one in answer["items"]]
    return ids, seconds, found


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
    columns = [f"{name} {most}" for name in CALLS for most in RESULTS if (name, most) != ("retrieve", 20)]
    columns += ["found", "passed"]
    print("share of the evidence")
    print(f"{'chat':<8}{'questions':>10}" + "".join(f"{column:>15}" for column in columns), flush=True)
    pool, rows, times = concurrent.futures.ThreadPoolExecutor(2), [], collections.defaultdict(list)
    for chat in chats:
        thread, known = store(service, chat, [one for one in messages if one["thread"] == chat])
        settle(service, chat)
        own = [one for one in questions if one["thread"] == chat and evidence[one["id"]]]
        own_rows = []
        asked = pool.map(lambda one: ask(service, chat, thread, one["text"]), own)
        for one, (ids, seconds, found) in zip(own, asked):
            own_rows.append(row(evidence[one["id"]], {name: [known.get(id) for id in all] for name, all in ids.items()}, found))
            for name, value in seconds.items():
                times[name].append(value)
        report(chat, own_rows, columns)
        rows += own_rows
    report("all", rows, columns)
    print("milliseconds per call, two at a time: median and 95th percentile")
    for name in CALLS:
        each = sorted(times[name])
        print(f"{name:<12}{1000 * each[len(each) // 2]:>8.1f}{1000 * each[len(each) * 95 // 100]:>8.1f}", flush=True)


def row(evidence, found, says_found):
    shares = {f"{name} {most}": len(evidence & set(ids[:most])) / len(evidence)
              for name, ids in found.items() for most in RESULTS}
    searched = evidence & set(found["/v1/search"][:10])
    passed = len(searched & set(found["retrieve"])) / len(searched) if searched else None
    return {**shares, "found": float(says_found), "passed": passed}


def report(title, rows, columns):
    cells = []
    for column in columns:
        values = [one[column] for one in rows if one[column] is not None]
        cells.append(f"{sum(values) / max(len(values), 1):>15.3f}")
    print(f"{title:<8}{len(rows):>10}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
