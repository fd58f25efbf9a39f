"""A hostile page of another origin, open in the same browser as memoir."""

import contextlib
import http.server
import threading

from browser import api
from setting import URL, b

# A form without script, and what a script can send without a preflight request.
PAGE = """<!doctype html><title>elsewhere</title><link rel="icon" href="data:,">
<form method="post" enctype="multipart/form-data" action="{url}/v1/ingestions"><input type="file" name="file"></form>"""

FETCH = """const done = arguments[arguments.length - 1], [url, kind] = arguments;
const form = new FormData();
form.append('file', new File(['planted by a form'], 'planted.txt', {type: 'text/plain'}));
const body = kind === 'form' ? form : new Blob(['{"text": "planted as text", "path": "/planted.txt"}'], {type: 'text/plain'});
fetch(url + '/v1/ingestions', {method: 'POST', mode: 'no-cors', credentials: 'include', body})
  .then((answer) => done(answer.type), (error) => done(String(error)));"""

SUBMIT = """const files = new DataTransfer();
files.items.add(new File(['planted by a submit'], 'planted.txt', {type: 'text/plain'}));
document.querySelector('input').files = files.files;
document.querySelector('form').submit();"""


@contextlib.contextmanager
def elsewhere():
    """A foreign web server on another port."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = PAGE.format(url=URL).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def stored():
    return [len(api(URL, "GET", f"/v1/{what}?limit=500")["items"]) for what in ("jobs", "sources")]


def a_page_of_another_origin_plants_nothing():
    before = stored()
    with elsewhere() as port:
        # Another port of the same machine, which counts as the same site; and another site.
        for host in ("127.0.0.1", "localhost"):
            for kind in ("form", "text"):
                b.driver.get(f"http://{host}:{port}/")
                assert b.driver.execute_async_script(FETCH, URL, kind) == "opaque"
            b.driver.get(f"http://{host}:{port}/")
            b.js(SUBMIT)
            b.until("the answer to the form", lambda: b.driver.current_url.startswith(URL))
            b.sees("cross_origin_request")
            b.sees("server.cors_origins")
    assert stored() == before, (before, stored())

    # The same requests from memoir's own page are accepted.
    b.open("")
    assert b.driver.execute_async_script(FETCH, URL, "form") == "basic"
    b.until("the text is stored", lambda: stored()[0] == before[0] + 1)
    # The requests to the other host came from this step, not from the page.
    b.driver.get_log("performance")
    return [403, 415]
