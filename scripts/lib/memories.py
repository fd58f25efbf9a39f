"""Measures conversations, the retrieval policy and prompts over HTTP with a release build. Called by scripts/bench.

    memories.py MEMOIR_BINARY conversation|policy|prompts|stages DATABASE_FILE [MEMORIES ...]

`stages` measures one user who has all memories, right after they were imported; its database may be the URL of a
PostgreSQL database.
"""

import json
import multiprocessing
import os
import random
import re
import select
import signal
import sqlite3
import statistics
import subprocess
import sys
import time

from local_http import JSON, PORT, call, connect

USERS = 1000
PER_REQUEST = 500
CLIENTS = 2
SECONDS = 8
TOPICS = ("refund shipping account_access billing product_issue cancellation order_status payment returns "
          "technical_support pricing subscription general_inquiry").split()
WORDS = ("parcel refund invoice kitchen garden winter summer train ticket hotel bicycle lamp oil harbour letter card "
         "account password order delivery address payment price contract doctor appointment school teacher music "
         "guitar piano dinner bread coffee tea market budget report meeting deadline project server backup").split()


def sentence(chance):
    return "The " + " ".join(chance.choices(WORDS, k=9)) + f" {chance.randrange(10_000)}."


class Service:
    """A running binary with its database."""

    def __init__(self, binary, file, **settings):
        self.environment = dict(
            os.environ,
            MEMOIR__DATABASE__URL=file if "://" in file else f"sqlite://{file}",
            MEMOIR__SERVER__LISTEN=f"127.0.0.1:{PORT}",
            MEMOIR__MEMORY__RATE_LIMIT="0",
            **settings,
        )
        self.binary = binary
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.binary], env=self.environment, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            try:
                call(connect(), "GET", "/health/ready")
                return
            except OSError:
                time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def memory(self, field="VmRSS"):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(rf"{field}:\s+(\d+)", file.read()).group(1)) // 1024


def spread(times):
    times = sorted(times)
    at = lambda share: times[min(len(times) - 1, int(len(times) * share))]
    return f"p50 {at(0.5):.2f}, p95 {at(0.95):.2f}, p99 {at(0.99):.2f} ms"


def each_client(work, *arguments):
    """Runs the work in several processes and joins what they return."""
    results = multiprocessing.Queue()
    run = lambda seed: results.put(work(seed, *arguments))
    clients = [multiprocessing.Process(target=run, args=(seed,)) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    found = [item for _ in clients for item in results.get()]
    for client in clients:
        client.join()
    return found


def import_messages(seed, first, end):
    """Messages of all users in turn: a few requests of many messages for each thread."""
    connection, chance = connect(), random.Random(first + seed)
    per_user = (end - first) // USERS
    stored = 0
    for user in range(seed, USERS, CLIENTS):
        thread = call(connection, "POST", "/v1/threads", {"user_id": f"u{user}", "title": f"Thread {first}"})["id"]
        for start in range(0, per_user, PER_REQUEST):
            count = min(PER_REQUEST, per_user - start)
            day = lambda: f"2026-0{chance.randrange(1, 10)}-{chance.randrange(10, 29)}T12:00:00Z"
            messages = [{"content": sentence(chance), "created_at": day()} for _ in range(count)]
            call(connection, "POST", f"/v1/threads/{thread}/messages", {"messages": messages, "enrich": False})
            stored += count
    return [stored]


def execute(file, statements):
    if "://" in file:
        subprocess.run(["psql", "-q", file, *(word for sql in statements for word in ("-c", sql))], check=True)
        return
    database = sqlite3.connect(file)
    for sql in statements:
        database.execute(sql)
    database.commit()
    database.close()


def classify(file):
    """Gives every memory a topic and an importance, as its enrichment would."""
    names = " ".join(f"WHEN {place} THEN '{topic}'" for place, topic in enumerate(TOPICS))
    topic = f"CASE seq % {len(TOPICS)} {names} END"
    fresh = "WHERE has_topics = 0"
    labels = """'{"topics":["' || """ + topic + """ || '"]}'"""
    execute(file, [
        "INSERT INTO memory_topics (space, memory_id, topic, position, user_id) "
        f"SELECT space, id, {topic}, 0, user_id FROM memories {fresh}",
        f"UPDATE memories SET has_topics = 1, enrichment_state = 'done', own_importance = 0.5, importance = 0.5, "
        f"labels_json = {labels} {fresh}",
    ])


def fill(service, file, first, end):
    began = time.perf_counter()
    stored = sum(each_client(import_messages, first, end))
    rate = stored / (time.perf_counter() - began)
    print(f"\n{end} memories of {USERS} users, imported {rate:.0f}/s, memory {service.memory()} MiB", flush=True)
    service.stop()
    classify(file)
    service.start()


def threads_of(count):
    connection, chance, found = connect(), random.Random(count), []
    for user in chance.sample(range(USERS), count):
        page = call(connection, "GET", f"/v1/threads?user_id=u{user}&limit=1")
        found.append((f"u{user}", page["items"][0]["id"]))
    return found


def ask(seed, owners, path, body):
    """Asks for some seconds; returns the time of each call and what the service says about it."""
    connection, chance, times = connect(), random.Random(seed), []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        user, thread = chance.choice(owners)
        request = json.loads(json.dumps(body).replace("$USER", user).replace("$THREAD", thread)
                             .replace("$QUERY", sentence(chance)))
        began = time.perf_counter()
        answer = call(connection, "POST", path, request)
        times.append(((time.perf_counter() - began) * 1000, answer.get("timings", {})))
    return times


def conversation(service, binary, file, sizes):
    connection = connect()
    threads = [call(connection, "POST", "/v1/threads", {"user_id": f"u{n}"})["id"] for n in range(64)]
    times = []
    for n in range(2000):
        began = time.perf_counter()
        call(connection, "POST", f"/v1/threads/{threads[n % 64]}/messages", {"content": f"Note {n}.", "enrich": False})
        times.append((time.perf_counter() - began) * 1000)
    print(f"message stored, 1 client: {spread(times)}")
    # wrk needs less of the processor than clients in Python would.
    wrk = ["wrk", "-t1", "-c8", "-d10s", "--latency", "-s", "scripts/lib/post-message.lua", f"http://127.0.0.1:{PORT}"]
    environment = dict(os.environ, MEMOIR_BENCH_THREADS=" ".join(threads))
    said = subprocess.run(wrk, env=environment, capture_output=True, text=True).stdout
    figures = re.findall(r"(50%\s+\S+|99%\s+\S+|Requests/sec:\s+\S+|Non-2xx.*)", said)
    print("message stored, 8 clients:", ", ".join(re.sub(r"\s+", " ", figure) for figure in figures), flush=True)

    filled = 0
    for size in sizes:
        fill(service, file, filled, size)
        filled = size
        owners = threads_of(200)
        for rank in ("staged", "search"):
            body = {"query": "$QUERY", "user_id": "$USER", "thread_id": "$THREAD", "rank": rank}
            ask(0, owners, "/v1/context", body)  # loads the index
            found = each_client(ask, owners, "/v1/context", body)
            print(f"context {rank}: {len(found) / SECONDS:.0f}/s, whole call {spread([one[0] for one in found])}")
            names = ("own_ms", "analyze_ms", "retrieval_ms") if rank == "staged" else ("own_ms", "search_ms")
            for name in names:
                print(f"  {name}: {spread([one[1][name] for one in found])}", flush=True)
        print(f"memory {service.memory()} MiB, peak {service.memory('VmHWM')} MiB", flush=True)


def stages(service, binary, file, sizes):
    """Each stage for a user with all the memories, in 20 threads."""
    for size in sizes:
        connection, chance, user = connect(), random.Random(size), f"one{size}"
        for place in range(20):
            thread = call(connection, "POST", "/v1/threads", {"user_id": user, "title": f"Thread {place}"})["id"]
            messages = [{"content": sentence(chance)} for _ in range(size // 20)]
            call(connection, "POST", f"/v1/threads/{thread}/messages", {"messages": messages, "enrich": False})
        service.stop()
        classify(file)
        service.start()
        body = {"query": "$QUERY", "user_id": "$USER", "thread_id": "$THREAD", "rank": "staged"}
        found = ask(0, [(user, thread)], "/v1/context", body)
        print(f"\n{size} memories of one user, staged: whole call {spread([one[0] for one in found])}")
        for name in ("current_thread_ms", "cross_thread_ms", "expansion_ms", "retrieval_ms"):
            print(f"  {name}: {spread([one[1][name] for one in found])}", flush=True)


def policy(service, binary, file, sizes):
    filled = 0
    for size in sizes:
        fill(service, file, filled, size)
        filled = size
        owners = threads_of(200)
        body = {"userId": "$USER", "sessionId": "$THREAD", "useMemory": True, "query": "$QUERY", "topK": 20}
        admin = {"retrieval": {"topK": 20, "minScore": 0}}
        call(connect(), "PUT", "/v1/admin/memory-settings", admin)
        ask(0, owners, "/v1/memory/retrieve", body)  # loads the index
        before = service.memory()
        found = each_client(ask, owners, "/v1/memory/retrieve", body)
        print(f"retrieve, no query twice: {len(found) / SECONDS:.0f}/s, {spread([one[0] for one in found])}")
        print(f"  chain over 40 candidates: {spread([one[1]['chainMs'] for one in found])}")
        print(f"  in the service: {spread([one[1]['totalMs'] for one in found])}")
        print(f"memory {before} MiB before, {service.memory()} MiB after, peak {service.memory('VmHWM')} MiB", flush=True)


def texts(seed, count):
    connection, chance = connect(), random.Random(seed)
    for number in range(seed, count, CLIENTS):
        paragraphs = [" ".join(sentence(chance) for _ in range(12)) for _ in range(6)]
        body = {"text": f"# Note {number}\n\n" + "\n\n".join(paragraphs), "filename": f"note-{number}.md"}
        call(connection, "POST", "/v1/ingestions", body)
    return []


def cancelled(number):
    """How long a run takes to end after it was cancelled, in milliseconds."""
    connection, chance = connect(), random.Random(number)
    run = f"0199a7e0-0000-7000-8000-{number:012x}"
    body = json.dumps({"task": sentence(chance), "run_id": run})
    connection.request("POST", "/v1/prompts", body, JSON)
    other = connect()
    # Not known yet: ask again. Already finished: nothing to measure.
    while not select.select([connection.sock], [], [], 0)[0]:
        began = time.perf_counter()
        other.request("POST", f"/v1/runs/{run}/cancel", "{}", JSON)
        reply = other.getresponse()
        reply.read()
        if reply.status == 200:
            break
    answer = connection.getresponse()
    answer.read()
    return (time.perf_counter() - began) * 1000 if answer.status == 409 else None


def prompts(service, binary, file, sizes):
    for count in sizes:
        each_client(texts, count)
        connection = connect()
        while any(call(connection, "GET", f"/v1/jobs?state={state}&limit=1")["items"] for state in ("queued", "running")):
            time.sleep(0.2)
        tokens = sqlite3.connect(file).execute("SELECT SUM(token_count) FROM source_versions").fetchone()[0]
        print(f"\n{count} sources, {tokens} tokens, memory {service.memory()} MiB", flush=True)
        off = {name: False for name in ("shape", "rerank", "nli", "condense", "audit")}
        owners = [("", "")]
        for name, body in (("without models", {"task": "$QUERY", "agents": off}), ("all stages, embedded", {"task": "$QUERY"})):
            ask(CLIENTS + 1, owners, "/v1/prompts", body)
            # One client shows the time of a call, several what two cores can do.
            for clients, found in (("1 client", ask(CLIENTS, owners, "/v1/prompts", body)),
                                   (f"{CLIENTS} clients", each_client(ask, owners, "/v1/prompts", body))):
                print(f"compose {name}, {clients}: {len(found) / SECONDS:.0f}/s, {spread([one[0] for one in found])}")
                print(f"  own_ms: {spread([one[1]['own_ms'] for one in found])}", flush=True)
        first, connection = [], connect()
        for number in range(100):
            began = time.perf_counter()
            task = sentence(random.Random(number))
            prompt = call(connection, "POST", "/v1/prompts", {"task": task})["prompt"]
            connection.request("POST", "/v1/prompts/send", json.dumps({"prompt": prompt, "stream": True}), JSON)
            reply = connection.getresponse()
            while not (line := reply.readline()).startswith(b"event: reply"):
                if not line:
                    sys.exit("the stream ended without a reply")
            first.append((time.perf_counter() - began) * 1000)
            reply.read()
        print(f"prompt to first token, embedded: {spread(first)}", flush=True)
        ends = [took for took in map(cancelled, range(1, 200)) if took is not None]
        if ends:
            print(f"cancel to end ({len(ends)} runs): {spread(ends)}")
        print(f"memory {service.memory()} MiB, peak {service.memory('VmHWM')} MiB", flush=True)


def main():
    binary, mode, file, *sizes = sys.argv[1:]
    service = Service(binary, file)
    try:
        run = {"conversation": conversation, "policy": policy, "prompts": prompts, "stages": stages}[mode]
        run(service, binary, file, [int(size) for size in sizes])
    finally:
        service.stop()


if __name__ == "__main__":
    main()
