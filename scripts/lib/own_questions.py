"""Asks the 60 questions of tests/data/ask over four books, the project's documents and 30 notes, with `memoir eval`.

Starts memoir with the embedded model on an empty database, ingests, and prints the table of `memoir eval`. Fails if fewer
than 55 questions have their evidence among the first five chunks, or fewer than 45 answers contain the fact.

Usage: own_questions.py BINARY DATA [ARGUMENTS of memoir eval...]"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BOOKS = ["bryant-stories.txt", "carroll-alice.txt", "chesterton-brown.txt", "melville-moby_dick.txt"]
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
QUESTIONS = "tests/data/ask/questions.jsonl"
NOTES = "tests/data/ask/notes"
WANTED = {"evidence_at_k": 55, "answered": 45}


def serve(binary, folder, settings):
    log = open(os.path.join(folder, "memoir.log"), "w", encoding="utf-8")
    process = subprocess.Popen([binary, "serve"], env={**os.environ, **settings}, stdout=log, stderr=log)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://{settings['MEMOIR__SERVER__LISTEN']}/health/ready")
            return process
        except OSError:
            time.sleep(0.1)
    sys.exit(f"memoir does not start; see {log.name}")


def main():
    binary, data, *options = sys.argv[1:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "MEMOIR__DATABASE__URL": f"sqlite://{folder}/memoir.db",
            "MEMOIR__SERVER__LISTEN": address,
            "MEMOIR__LLM__MODEL": "local:embedded",
        }
        process = serve(binary, folder, settings)
        try:
            server = ["--server", f"http://{address}"]
            files = [os.path.join(data, "prose", book) for book in BOOKS] + DOCUMENTS + [NOTES]
            subprocess.run([binary, "ingest", *server, *files], check=True, stdout=subprocess.DEVNULL)
            evaluate = [binary, "eval", *server, QUESTIONS, "-k", "5", *options]
            found = json.loads(subprocess.run([*evaluate, "--json"], check=True, capture_output=True).stdout)
            subprocess.run(evaluate, check=True)
        finally:
            process.terminate()
            process.wait()

    # The first run is the plain search, which does not answer.
    items = found["runs"][1]["items"]
    faults = []
    for name, wanted in WANTED.items():
        right = sum(float(item[name] or 0) for item in items)
        print(f"{name}: {right:.0f} of {len(items)}, wanted {wanted}")
        if right < wanted:
            faults.append(name)
    for item in items:
        if not item["answered"] or not item["evidence_at_k"]:
            told = (item["answer"] or "nothing found").replace("\n", " ")[:110]
            print(f"  {'evidence' if item['evidence_at_k'] else 'no evidence'}: {item['question']} -> {told}")
    if faults:
        sys.exit("below what is wanted: " + ", ".join(faults))


main()
