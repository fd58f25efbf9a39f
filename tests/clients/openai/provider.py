"""A provider for scripts/api-check: answers in OpenAI's protocol, whole and streamed, from what it was sent.

Prints its address and serves until its input ends.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


def text_of(messages):
    content = messages[-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def answer(messages):
    """Knows where the boat is only if the request says so."""
    if "Where" not in text_of(messages):
        return "Noted."
    return "In Bergen." if "Bergen" in json.dumps(messages) else "I do not know."


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer key-of-the-provider", self.headers["Authorization"]
        if self.path == "/v1/embeddings":
            data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
            self.send(json.dumps({"object": "list", "model": "m", "data": data, "usage": USAGE}).encode())
            return
        if self.path == "/v1/responses":
            self.send_response_object(request)
            return

        said = answer(request["messages"])
        head = {"id": "c1", "created": 1, "model": request["model"]}
        if not request.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": USAGE}
            self.send(json.dumps(whole).encode())
            return

        words = said.replace(" ", " \n").split("\n")
        chunks = [{"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in words]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if request.get("stream_options", {}).get("include_usage"):
            chunks.append({"choices": [], "usage": USAGE})
        events = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks] + ["[DONE]"]
        self.send("".join(f"data: {event}\n\n" for event in events).encode(), "text/event-stream")

    def send_response_object(self, request):
        given = request["input"]
        said = answer([{"content": given}] if isinstance(given, str) else given)
        content = [{"type": "output_text", "text": said, "annotations": []}]
        message = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25,
                 "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": "r1", "object": "response", "created_at": 1, "model": request["model"], "status": "completed",
                    "output": [message], "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        self.send(json.dumps(response).encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
sys.stdin.read()
