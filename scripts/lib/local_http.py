"""Calls a service that a benchmark has started on this machine."""

import http.client
import json
import random

# Chosen once: processes that a benchmark forks use the same one.
PORT = random.randrange(20000, 32000)
JSON = {"Content-Type": "application/json"}


def connect():
    """A connection. The service closes one that is idle for a while, so open another after a pause."""
    return http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)


def call(connection, method, path, body=None):
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, JSON)
    response = connection.getresponse()
    read = response.read()
    if response.status >= 400:
        raise SystemExit(f"{method} {path}: {response.status} {read[:500]!r}")
    return json.loads(read) if read else None
