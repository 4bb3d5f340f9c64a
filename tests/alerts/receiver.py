"""A receiver of webhooks that can go away and come back at the same port."""

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from world import free_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver:
    def __init__(self):
        self.port, self.status, self.pause = free_port(), 204, 0.0
        # IDs and events of what was accepted, in the order of arrival.
        self.accepted: list[tuple[str, dict]] = []
        self.server = None
        self.come()

    def settings(self) -> str:
        """For a gateway with the secret in HOOK_SECRET."""
        return (
            f'[egress]\nopen_networks = ["127.0.0.1/32"]\nports = [{self.port}]\n'
            f'[[webhooks]]\nurl = "http://127.0.0.1:{self.port}/hook"\nsecret_env = "HOOK_SECRET"\ntimeout_sec = 2\n'
        )

    def come(self):
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                event = json.loads(self.rfile.read(int(self.headers["content-length"])))
                time.sleep(receiver.pause)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()
                if receiver.status < 300:
                    receiver.accepted.append((self.headers["webhook-id"], event))

            def handle(self):
                # A sender that is killed leaves half a connection.
                with suppress(OSError):
                    super().handle()

            def log_message(self, *_):
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def go(self):
        """Nothing listens any more."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
