"""Shared by all steps: the browser, the service, and the model server that steps start."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

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
            assert server.poll() is None, f"the model server ended: {' '.join(command)}"
            with socket.socket() as line:
                return line.connect_ex((place.hostname, place.port)) == 0
        b.until("the model server", listens)
        yield
    finally:
        server.terminate()
        server.wait()


def ready(url):
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health/ready", timeout=5) as answer:
        return answer.status == 200


@contextlib.contextmanager
def process(environment, *arguments):
    running = subprocess.Popen([BINARY, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.terminate()
        running.wait()


@contextlib.contextmanager
def other_service(**settings):
    """Another service with a database of its own, which the browser uses meanwhile. Yields its URL and its settings."""
    with socket.socket() as line, tempfile.TemporaryDirectory() as folder:
        line.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % line.getsockname()[1]
        line.close()
        url, own = f"http://{address}", b.url
        environment = dict(
            os.environ, MEMOIR__SERVER__LISTEN=address, MEMOIR__SERVER__SHUTDOWN_GRACE="2",
            MEMOIR__DATABASE__URL=f"sqlite://{pathlib.Path(folder, 'memoir.db')}",
            MEMOIR__LLM__PROVIDERS__AWAY__BASE_URL=AWAY, **settings)
        with process(environment, "serve"):
            b.until("the other service", lambda: ready(url))
            b.note_requests()
            b.url = url
            try:
                yield url, environment
            finally:
                b.note_requests()
                b.url = own
                b.open("")
