"""Asks questions with known answers with `memoir eval`: the 60 of tests/data/ask/questions.jsonl over four books, the
project's documents and 30 notes, and the 94 of new_users.jsonl, as new users would ask them, over the books, three
changelogs, posts of newsgroups and 50 notes, of which 18 have no answer there.

Starts memoir with the embedded model on an empty database for each, ingests, and prints right answers. Of the second,
half is for tuning and half is held out. Fails if fewer than 55 of the 60 have their evidence among the first five
chunks or fewer than 45 an answer with the fact, if fewer than 48 of the 94 are answered right, or if fewer than nine of
ten answers with the confidence `high` are right in any half.

Usage: own_questions.py BINARY DATA [ARGUMENTS of memoir eval...]"""

import collections
import glob
import json
import os
import shutil
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

USERS_QUESTIONS = "tests/data/ask/new_users.jsonl"
USERS_NOTES = [NOTES, "tests/data/notes"]
CRATES = {"regex": "regex-1.*", "axum": "axum-0.8.*", "rand": "rand-0.10.*"}
POSTS = "d4746 d549 d8251 d4809 d2485 d6136 d1836 d7993 d7099 d2456".split()
OTHER_POSTS = 150
RIGHT = 48
SURE = 0.9


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


def evaluate(binary, files, questions, options, show):
    """What `memoir eval` measures of the queries over some files."""
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
            subprocess.run([binary, "ingest", *server, *files], check=True, stdout=subprocess.DEVNULL)
            command = [binary, "eval", *server, questions, "-k", "5", *options]
            found = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
            if show:
                subprocess.run(command, check=True)
        finally:
            process.terminate()
            process.wait()
    # The first run is the plain search, which does not answer.
    return found["runs"][1]["items"]


def told(item):
    return (item["answer"] or "nothing found").replace("\n", " ")[:110]


def ask_own(binary, data, options):
    files = [os.path.join(data, "prose", book) for book in BOOKS] + DOCUMENTS + [NOTES]
    items = evaluate(binary, files, QUESTIONS, options, True)
    faults = []
    for name, wanted in WANTED.items():
        right = sum(float(item[name] or 0) for item in items)
        print(f"{name}: {right:.0f} of {len(items)}, wanted {wanted}")
        if right < wanted:
            faults.append(name)
    for item in items:
        if not item["answered"] or not item["evidence_at_k"]:
            print(f"  {'evidence' if item['evidence_at_k'] else 'no evidence'}: {item['question']} -> {told(item)}")
    return faults


def collect(data, folder):
    """The texts of new users' questions: a folder for each collection, whose name belongs to what a text is about."""
    crates = os.path.join(os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo")), "registry/src/*")
    for name, pattern in CRATES.items():
        found = sorted(glob.glob(os.path.join(crates, pattern, "CHANGELOG.md")))
        if not found:
            sys.exit(f"no changelog of {name} in {crates}; run `cargo fetch`")
        os.mkdir(os.path.join(folder, name))
        shutil.copy(found[-1], os.path.join(folder, name))
    for place, notes in enumerate(USERS_NOTES):
        shutil.copytree(notes, os.path.join(folder, f"notes-{place + 1}"))
    os.mkdir(os.path.join(folder, "news"))
    others = OTHER_POSTS
    with open(os.path.join(data, "filing/newsgroups.jsonl"), encoding="utf-8") as posts:
        for post in map(json.loads, posts):
            if post["id"] not in POSTS and others == 0:
                continue
            others -= post["id"] not in POSTS
            with open(os.path.join(folder, "news", post["id"] + ".txt"), "w", encoding="utf-8") as file:
                file.write(post["text"])
    return [folder] + [os.path.join(data, "prose", book) for book in BOOKS]


def ask_as_new_users(binary, data, options):
    with open(USERS_QUESTIONS, encoding="utf-8") as file:
        questions = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("w", suffix=".jsonl") as cases:
        for question in questions:
            case = {name: value for name, value in question.items() if name not in ("in", "half")}
            cases.write(json.dumps(case) + "\n")
        cases.flush()
        items = evaluate(binary, collect(data, folder), cases.name, options, False)

    faults, all_right = [], 0
    for half in ("tuning", "held out"):
        levels = collections.defaultdict(list)
        for question, item in zip(questions, items):
            if question["half"] == half:
                right = item["answered"] if question.get("found", True) else not item["found"]
                levels[item["confidence"] if item["found"] else "not found"].append(bool(right))
                if not right:
                    print(f"  {item['confidence'] if item['found'] else 'not found'}: {item['question']} -> {told(item)}")
        right = sum(sum(each) for each in levels.values())
        all_right += right
        shares = (f"{name} {sum(levels[name])} of {len(levels[name])}" for name in ("high", "medium", "low", "not found"))
        print(f"new users, {half}: {right} of {sum(map(len, levels.values()))} right; " + ", ".join(shares))
        if sum(levels["high"]) < SURE * len(levels["high"]):
            faults.append(f"confidence high, {half}")
    if all_right < RIGHT:
        faults.append("answers to new users")
    return faults


def main():
    binary, data, *options = sys.argv[1:]
    faults = ask_own(binary, data, options) + ask_as_new_users(binary, data, options)
    if faults:
        sys.exit("below what is wanted: " + ", ".join(faults))


main()
