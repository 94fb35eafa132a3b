#!/usr/bin/python3
"""Plays the model for an agent, without any network: answers the Messages API of Claude Code and the Responses API of Codex.

    model_api.py SHELL_COMMAND -- AGENT [ARGUMENT]...

Listens on 127.0.0.1:8123 and runs the agent. In the first turn the model asks for the shell command, and answers DONE to its result. Prints the
results of tools and each word MARK-… of a request to standard error. The exit code is the agent's.
"""

import http.server
import json
import re
import subprocess
import sys
import threading

PORT = 8123
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


def messages(request, command):
    """The events that answer a request to the Messages API of Anthropic."""
    tools = [tool.get("name") for tool in request.get("tools", [])]
    parts = [part for message in request.get("messages", []) if isinstance(message.get("content"), list) for part in message["content"]]
    results = [part for part in parts if part.get("type") == "tool_result"]
    print("told:", json.dumps(results)[:500], file=sys.stderr, flush=True)
    if "Bash" in tools and not results:
        block = {"type": "tool_use", "id": "call", "name": "Bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": command, "description": "work"})}
        reason = "tool_use"
    else:
        block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": "DONE"}, "end_turn"
    message = {"id": "m", "type": "message", "role": "assistant", "model": request.get("model", "m"), "content": [], "stop_reason": None, "usage": USAGE}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": USAGE},
        {"type": "message_stop"},
    ]


def responses(request, command):
    """The events that answer a request to the Responses API of OpenAI."""
    results = [item for item in request.get("input", []) if item.get("type", "").endswith("_call_output")]
    print("told:", json.dumps(results)[:500], file=sys.stderr, flush=True)
    if results:
        item = {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "DONE"}]}
    else:
        item = {"type": "function_call", "call_id": "call", "name": "exec_command", "arguments": json.dumps({"cmd": command})}
    return [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "r", "usage": USAGE}},
    ]


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = ""

    def log_message(self, *_):
        pass

    def answer(self, kind, content):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.answer("application/json", b'{"data": [], "models": []}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding"):
            sys.exit("the agent compresses what it says, and this model cannot read it")
        path = self.path.split("?")[0]
        # The marks are in instructions that a test has written and the agent has read.
        print("marks:", *sorted(set(re.findall(r"MARK-\w+", body.decode()))), file=sys.stderr, flush=True)
        api = {"/v1/messages": messages, "/v1/responses": responses}.get(path)
        if api is None:
            return self.answer("application/json", b"{}")
        events = api(json.loads(body), self.asked)
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.answer("text/event-stream", stream.encode())


def main():
    command, dashes, *agent = sys.argv[1:]
    assert dashes == "--", __doc__
    Model.asked = command
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.exit(subprocess.run(agent, stdin=subprocess.DEVNULL).returncode)


main()
