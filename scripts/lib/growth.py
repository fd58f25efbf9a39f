"""Fills a service with small texts and measures what it costs as it grows: disk, ingestion (one request each and in
batches), searches and queries while nothing is written and while texts are written, memory, and the processor time of
the service for each text and each question. Called by scripts/bench growth.

    growth.py MEMOIR_BINARY DATABASE_URL PROSE_FOLDER SIZE [SIZE ...]
"""

import glob
import itertools
import json
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import time

from local_http import PORT, call, connect

TEXT_BYTES = 1500
CLIENTS = 2
SECONDS = 8
ONE_BY_ONE = 500
BATCH = 200


class Texts:
    """Passages of the prose files, cut and joined anew, so that no two texts are equal."""

    def __init__(self, folder, seed):
        self.passages = []
        for name in sorted(glob.glob(f"{folder}/*.txt")):
            with open(name, encoding="utf-8", errors="replace") as file:
                self.passages += [p.strip() for p in re.split(r"\n\s*\n", file.read()) if 80 < len(p) < 900]
        self.random = random.Random(seed)

    def next(self, number):
        parts, length = [f"Note {number}."], 0
        while length < TEXT_BYTES:
            part = self.random.choice(self.passages)
            parts.append(part)
            length += len(part.encode())
        return "\n\n".join(parts).encode()[:TEXT_BYTES].decode(errors="ignore")

    def question(self):
        words = re.findall(r"[A-Za-z]{4,}", self.random.choice(self.passages))
        start = self.random.randrange(max(1, len(words) - 5))
        return " ".join(words[start : start + 5]) or "harbour"


def post(folder, numbers, seed, batch):
    texts, connection = Texts(folder, seed), connect()
    items = ({"text": texts.next(number), "filename": f"note-{number}.md"} for number in numbers)
    if batch == 1:
        for item in items:
            call(connection, "POST", "/v1/ingestions", item)
        return
    while some := list(itertools.islice(items, batch)):
        call(connection, "POST", "/v1/ingestions/batch", {"items": some})


def ingest(folder, first, end, batch):
    """Ingests texts and waits for all of them; returns texts per second."""
    began, connection = time.perf_counter(), connect()
    clients = [
        multiprocessing.Process(target=post, args=(folder, range(first + n, end, CLIENTS), first + n, batch))
        for n in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    while any(call(connection, "GET", f"/v1/jobs?state={state}&limit=1")["items"] for state in ("queued", "running")):
        time.sleep(0.05)
    return (end - first) / (time.perf_counter() - began)


def fill(folder, first, end, pid):
    """Ingests texts, the first ones with one request each, the others in batches; returns both rates and the
    milliseconds of processor time for each text."""
    alone, began = min(first + ONE_BY_ONE, end), processor_seconds(pid)
    one_by_one = ingest(folder, first, alone, 1)
    between = processor_seconds(pid)
    costs = [(between - began) * 1000 / (alone - first)]
    if alone == end:
        return one_by_one, one_by_one, costs * 2
    in_batches = ingest(folder, alone, end, BATCH)
    costs.append((processor_seconds(pid) - between) * 1000 / (end - alone))
    return one_by_one, in_batches, costs


def write(folder, rate, seconds, seed):
    texts, connection, began = Texts(folder, seed), connect(), time.perf_counter()
    for number in range(int(rate * seconds)):
        time.sleep(max(0, began + number / rate - time.perf_counter()))
        body = {"text": texts.next(10_000_000 + seed * 100_000 + number), "filename": "written.md"}
        call(connection, "POST", "/v1/ingestions", body)


def ask(folder, path, body, field, seconds, seed, results):
    texts, connection, times = Texts(folder, seed), connect(), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        request = dict(body, **{field: texts.question()})
        began = time.perf_counter()
        call(connection, "POST", path, request)
        times.append((time.perf_counter() - began) * 1000)
    results.put(times)


def measure(folder, path, body, field, rate, seed, pid):
    # The first question loads the index.
    call(connect(), "POST", path, dict(body, **{field: Texts(folder, seed).question()}))
    results, began = multiprocessing.Queue(), processor_seconds(pid)
    writer = multiprocessing.Process(target=write, args=(folder, rate, SECONDS + 1, seed))
    if rate:
        writer.start()
        time.sleep(1)
    clients = [
        multiprocessing.Process(target=ask, args=(folder, path, body, field, SECONDS, seed + n, results))
        for n in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    times = sorted(t for _ in clients for t in results.get())
    for process in clients + ([writer] if rate else []):
        process.join()
    cost = (processor_seconds(pid) - began) * 1000 / len(times)
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
    return len(times) / SECONDS, statistics.median(times), p99, cost


def disk(url):
    """The size of the database. SQLite's log is not counted: it does not grow with the store."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite://"))
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        connection.close()
        return pages * size
    answer = subprocess.run(
        ["psql", "-qtA", url, "-c", "SELECT pg_database_size(current_database())"], capture_output=True, text=True
    )
    return int(answer.stdout.strip())


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) // 1024


def main():
    binary, url, folder, *sizes = sys.argv[1:]
    environment = dict(
        os.environ,
        MEMOIR__DATABASE__URL=url,
        MEMOIR__SERVER__LISTEN=f"127.0.0.1:{PORT}",
        MEMOIR__JOBS__MAX_QUEUED="1000000",
    )
    service = subprocess.Popen([binary], env=environment, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                call(connect(), "GET", "/health/ready")
                break
            except OSError:
                time.sleep(0.05)
        filled, used, seed = 0, 0, 1
        for size in map(int, sizes):
            # Texts and receipts of the measurements before are not counted.
            before = disk(url)
            one_by_one, in_batches, costs = fill(folder, filled, size, service.pid)
            filled, used = size, used + disk(url) - before
            ratio = used / (size * TEXT_BYTES)
            print(f"\n{size} texts: disk {ratio:.2f} x text, {memory(service.pid)} MiB")
            for name, rate, cost in zip(("one request each", "in batches"), (one_by_one, in_batches), costs):
                print(f"  ingested {name}: {rate:.0f} texts/s, {cost:.2f} ms of processor time each")
            for name, path, body, field in [
                ("keyword search", "/v1/search", {"type": "keyword", "k": 10}, "query"),
                ("hybrid search", "/v1/search", {"type": "hybrid", "k": 10}, "query"),
                ("retrieve", "/v1/queries", {"mode": "retrieve"}, "query"),
            ]:
                for writes in (0, 20, 100):
                    seed += 10
                    per_second, p50, p99, cost = measure(folder, path, body, field, writes, seed, service.pid)
                    # While texts are written, the processor time includes theirs.
                    print(
                        f"  {name}, {writes:3} writes/s: {per_second:5.0f}/s, p50 {p50:6.2f} ms, p99 {p99:6.2f} ms, "
                        f"processor {cost:5.2f} ms",
                        flush=True,
                    )
            print(f"  memory then: {memory(service.pid)} MiB", flush=True)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()


if __name__ == "__main__":
    main()
