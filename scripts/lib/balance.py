"""Fills a service with short texts on many subjects, one chunk each, and measures whether the hierarchy keeps its
balance: how large leaves and lists of categories are, and the processor time for each text as the store grows. Called
by scripts/bench balance.

    balance.py MEMOIR_BINARY DATABASE_URL COUNT
"""

import os
import signal
import subprocess
import sys
import time

from growth import memory, processor_seconds
from local_http import PORT, call, connect
from subjects import text

STEP = 1000
BATCH = 200
# Smaller ones show more splits with fewer texts.
LEAF_TARGET = int(os.environ.get("MEMOIR__TAXONOMY__LEAF_TARGET", "48"))
CHILDREN_TARGET = int(os.environ.get("MEMOIR__TAXONOMY__CHILDREN_TARGET", "60"))


def unfinished(connection):
    states = ("queued", "running")
    return any(call(connection, "GET", f"/v1/jobs?state={state}&limit=1")["items"] for state in states)


def send(connection, batch):
    """On a busy machine the database may not answer in time; then the request has changed nothing."""
    for _ in range(20):
        try:
            return call(connection, "POST", "/v1/ingestions/batch", batch)
        except SystemExit as error:
            if ": 503 " not in str(error):
                raise
            time.sleep(1)
    raise SystemExit("the service does not accept texts")


def ingest(first, end):
    """Ingests texts and waits for all of them; returns the mean of the yardstick meanwhile."""
    connection = connect()
    for start in range(first, end, BATCH):
        items = [
            {"text": text(number), "filename": f"note-{number}.md"} for number in range(start, min(end, start + BATCH))
        ]
        send(connection, {"items": items})
    speeds = [yardstick()]
    while unfinished(connection):
        time.sleep(0.2)
        speeds.append(yardstick())
    return sum(speeds) / len(speeds)


def yardstick():
    """Milliseconds of processor time of a fixed computation: on a shared machine it varies, and with it the processor
    time of everything else."""
    began = time.process_time()
    sum(number * number for number in range(100_000))
    return (time.process_time() - began) * 1000


def hierarchy():
    connection, categories, cursor = connect(), [], ""
    while True:
        page = call(connection, "GET", f"/v1/categories?limit=500{cursor}")
        categories += page["items"]
        if not page["next_cursor"]:
            return categories
        cursor = f"&cursor={page['next_cursor']}"


def sizes(name, numbers, most):
    numbers = sorted(numbers)
    middle = numbers[len(numbers) // 2] if numbers else 0
    above = sum(1 for number in numbers if number > most)
    print(f"  {name}: {len(numbers)}, median {middle}, largest {numbers[-1] if numbers else 0}, {above} above {most}")
    return above == 0


def report(costs):
    categories = hierarchy()
    depth = max(category["level"] for category in categories)
    children = {}
    for category in categories:
        if category["parent_id"] is not None:
            children[category["parent_id"]] = children.get(category["parent_id"], 0) + 1
    on_level = {level: [c for c in categories if c["level"] == level] for level in range(1, depth + 1)}
    leaves = [leaf["chunk_count"] for leaf in on_level[depth]]
    kept = sizes("leaves and their chunks", leaves, 2 * LEAF_TARGET)
    for level in range(1, depth):
        counts = [children.get(category["id"], 0) for category in on_level[level]]
        sizes(f"categories of level {level} and their children", counts, 2 * CHILDREN_TARGET)
    kept &= sizes("level 1", [len(on_level[1])], CHILDREN_TARGET)

    jobs = call(connect(), "GET", "/v1/jobs?kind=balance&limit=500")["items"]
    done = {field: sum((job["result"] or {}).get(field, 0) for job in jobs) for field in ("splits", "merges")}
    print(f"  the last {len(jobs)} jobs that balanced: {done}, states {sorted({job['state'] for job in jobs})}")
    if len(costs) > 11:
        ratio = costs[-1] / costs[10]
        kept &= ratio <= 1.3
        print(f"  processor time of the last 1,000 texts, by the yardstick: {ratio:.2f} times that of texts 10,001 to 11,000")
    print("  kept" if kept else "  NOT KEPT")


def main():
    binary, url, count = sys.argv[1:]
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
        costs = []
        for first in range(0, int(count), STEP):
            began, clock = processor_seconds(service.pid), time.perf_counter()
            speed = ingest(first, min(int(count), first + STEP))
            cost = (processor_seconds(service.pid) - began) * 1000 / STEP
            costs.append(cost / speed)
            rate = STEP / (time.perf_counter() - clock)
            print(
                f"{first + STEP:7} texts: {cost:6.2f} ms of processor time each, {costs[-1]:.2f} times the yardstick of "
                f"{speed:.2f} ms, {rate:.0f}/s",
                flush=True,
            )
            if (first + STEP) % 10_000 == 0 or first + STEP >= int(count):
                report(costs)
                print(f"  memory: {memory(service.pid)} MiB", flush=True)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()


if __name__ == "__main__":
    main()
