"""Serves a registry on loopback that demands a token and has one crate, `leaf`. Prints the port."""

import hashlib
import http.server
import io
import json
import tarfile

MANIFEST = b'[package]\nname = "leaf"\nversion = "0.1.0"\nedition = "2021"\n'


def crate():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in [("Cargo.toml", MANIFEST), ("src/lib.rs", b"")]:
            entry = tarfile.TarInfo(f"leaf-0.1.0/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


CRATE = crate()


class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = self.content() if self.headers.get("authorization") == "a-token" else None
        missing = 404 if self.headers.get("authorization") else 401
        self.send_response(200 if content is not None else missing)
        self.end_headers()
        self.wfile.write(content or b"")

    def content(self):
        address = f"http://127.0.0.1:{self.server.server_port}"
        if self.path == "/index/config.json":
            return json.dumps({"dl": f"{address}/dl", "api": address, "auth-required": True}).encode()
        if self.path == "/index/le/af/leaf":
            digest = hashlib.sha256(CRATE).hexdigest()
            return json.dumps(
                {"name": "leaf", "vers": "0.1.0", "deps": [], "cksum": digest, "features": {}, "yanked": False}
            ).encode()
        return CRATE if self.path == "/dl/leaf/0.1.0/download" else None

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
print(server.server_port, flush=True)
server.serve_forever()
