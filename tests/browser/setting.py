"""Shared by all steps: the browser, the service, and the model server that steps start."""

import contextlib
import socket
import subprocess
import sys
import urllib.parse

from browser import Browser, api

URL, PICTURES, AXE, BINARY, AWAY = sys.argv[1:6]

b = Browser(URL, PICTURES, AXE)
b.driver.set_script_timeout(30)


def cards(state):
    return b.all(f".job-card[data-state='{state}']")


def source_named(name):
    return next(source for source in api(URL, "GET", "/v1/sources?limit=500")["items"] if source["filename"] == name)


def sound():
    """Fails if axe-core finds a violation in the current view or dialogue."""
    violations = b.axe_violations()
    assert not violations, "\n".join(violations)


@contextlib.contextmanager
def model_server(*arguments):
    """Runs the model server that is otherwise unreachable."""
    place = urllib.parse.urlparse(AWAY)
    command = [BINARY, "scripted-model", "--listen", place.netloc, *arguments]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def listens():
            with socket.socket() as line:
                return line.connect_ex((place.hostname, place.port)) == 0
        b.until("the model server", listens)
        yield
    finally:
        server.terminate()
        server.wait()
