"""Fills a service with small texts and measures what it costs as it grows: disk, ingestion, searches and queries while
nothing is written and while texts are written, and memory. Called by scripts/bench growth.

    growth.py MEMOIR_BINARY DATABASE_URL PROSE_FOLDER SIZE [SIZE ...]
"""

import glob
import http.client
import json
import multiprocessing
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time

TEXT_BYTES = 1500
CLIENTS = 2
SECONDS = 8
PORT = random.randrange(20000, 32000)


def connect():
    return http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)


def call(connection, method, path, body=None):
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json"})
    response = connection.getresponse()
    read = response.read()
    if response.status >= 400:
        raise SystemExit(f"{method} {path}: {response.status} {read[:500]!r}")
    return json.loads(read) if read else None


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


def post(folder, numbers, seed):
    texts, connection = Texts(folder, seed), connect()
    for number in numbers:
        body = {"text": texts.next(number), "filename": f"note-{number}.md"}
        call(connection, "POST", "/v1/ingestions", body)


def fill(folder, first, end):
    """Ingests texts, one request each, and waits for all of them; returns texts per second."""
    began, connection = time.perf_counter(), connect()
    clients = [
        multiprocessing.Process(target=post, args=(folder, range(first + n, end, CLIENTS), first + n))
        for n in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    while any(call(connection, "GET", f"/v1/jobs?state={state}&limit=1")["items"] for state in ("queued", "running")):
        time.sleep(0.05)
    return (end - first) / (time.perf_counter() - began)


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


def measure(folder, path, body, field, rate, seed):
    results = multiprocessing.Queue()
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
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
    return len(times) / SECONDS, statistics.median(times), p99


def disk(url):
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite://")
        return sum(os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end))
    answer = subprocess.run(
        ["psql", "-qtA", url, "-c", "SELECT pg_database_size(current_database())"], capture_output=True, text=True
    )
    return int(answer.stdout.strip())


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
        empty, filled, seed = disk(url), 0, 1
        for size in map(int, sizes):
            rate = fill(folder, filled, size)
            filled = size
            ratio = (disk(url) - empty) / (size * TEXT_BYTES)
            print(f"\n{size} texts: {rate:.0f} texts/s, disk {ratio:.2f} x text, {memory(service.pid)} MiB")
            for name, path, body, field in [
                ("keyword search", "/v1/search", {"type": "keyword", "k": 10}, "query"),
                ("hybrid search", "/v1/search", {"type": "hybrid", "k": 10}, "query"),
                ("retrieve", "/v1/queries", {"mode": "retrieve"}, "query"),
            ]:
                for writes in (0, 20, 100):
                    seed += 10
                    per_second, p50, p99 = measure(folder, path, body, field, writes, seed)
                    print(f"  {name}, {writes:3} writes/s: {per_second:5.0f}/s, p50 {p50:6.2f} ms, p99 {p99:6.2f} ms", flush=True)
            print(f"  memory then: {memory(service.pid)} MiB", flush=True)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()


if __name__ == "__main__":
    main()
