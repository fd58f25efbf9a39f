"""Files books, documents and notes with the embedded model and prints the hierarchy, to be read by a person.

Usage: filing.py BINARY FILE_OR_FOLDER..."""

import json
import os
import sys
import tempfile
import time
import urllib.request

from ask import Service


def files(paths):
    for path in paths:
        if os.path.isdir(path):
            yield from (os.path.join(path, name) for name in sorted(os.listdir(path)))
        else:
            yield path


def get(service, path):
    with urllib.request.urlopen(f"http://{service.address}{path}", timeout=300) as reply:
        return json.load(reply)


def ingest(service, path):
    with open(path, encoding="utf-8") as file:
        body = {"text": file.read(), "path": "/" + os.path.basename(path), "wait": True}
    job = service.post("/v1/ingestions", body, "default")
    while job["state"] not in ("succeeded", "failed"):
        time.sleep(1)
        job = get(service, f"/v1/jobs/{job['id']}")
    assert job["state"] == "succeeded", job


def tree(service):
    cursor, items = "", []
    while cursor is not None:
        page = get(service, f"/v1/categories/tree?limit=500{cursor and '&cursor=' + cursor}")
        items += page["items"]
        cursor = page["next_cursor"]
    return items


def show(items, parent=None, indent=0):
    for one in items:
        if one["parent_id"] == parent:
            print(f"{'  ' * indent}{one['name']} ({one['chunk_count']})")
            show(items, one["id"], indent + 1)


def main():
    binary, *paths = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        service = Service(binary, folder)
        try:
            for path in files(paths):
                ingest(service, path)
            show(tree(service))
        finally:
            service.process.terminate()
            service.process.wait()


main()
