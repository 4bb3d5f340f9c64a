"""A server in front of another one that adds TLS, with a certificate that can be exchanged."""

import os
import select
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path


class Authority:
    """A certificate authority of its own, and certificates of it for this machine."""

    def __init__(self, folder: Path, faketime: Path):
        self.folder, self.faketime = folder, faketime
        folder.mkdir()
        (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.openssl("+0", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=authority",
                     "-addext", "basicConstraints=critical,CA:TRUE")
        self.openssl("+0", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")

    def openssl(self, when: str, *arguments: str):
        # A certificate of the past is made in the past.
        environment = os.environ | {"LD_PRELOAD": str(self.faketime), "FAKETIME": when}
        subprocess.run(["openssl", *arguments], cwd=self.folder, env=environment, check=True, capture_output=True)

    def certificate(self, name: str, when: str) -> ssl.SSLContext:
        """A certificate that is valid for a day, from `when` on."""
        self.openssl(when, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                     "-days", "1", "-extfile", "names", "-out", f"{name}.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / "server.key")
        return context


class TlsFront:
    """Accepts TLS, and passes the bytes on to a port of this machine."""

    def __init__(self, behind: int, certificate: ssl.SSLContext):
        self.behind, self.certificate = behind, certificate
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open: set[socket.socket] = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def exchange(self, certificate: ssl.SSLContext):
        """Uses another certificate from now on, and ends the connections with the old one."""
        self.certificate = certificate
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket):
        with suppress(OSError), self.certificate.wrap_socket(client, server_side=True) as front:
            self.open.add(front)
            try:
                with socket.create_connection(("127.0.0.1", self.behind)) as back:
                    pass_on(front, back)
            finally:
                self.open.discard(front)


def pass_on(front: ssl.SSLSocket, back: socket.socket):
    while True:
        readable = [front] if front.pending() else select.select([front, back], [], [])[0]
        for source in readable:
            data = source.recv(65536)
            if not data:
                return
            (back if source is front else front).sendall(data)
