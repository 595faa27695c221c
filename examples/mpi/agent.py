"""Starts MPI's processes in other pods, where the image has no sshd.

    agent.py serve                  in a worker: waits for commands on port 2200, for as long as the pod lives
    agent.py HOST COMMAND...        in the launcher, as mpirun's remote agent (PRTE_MCA_plm_ssh_agent): runs it there

Both need the same MPI_AGENT_KEY. A worker sends a nonce; a command counts with the HMAC of nonce and command under that
key. It proves who sent the command and hides nothing: where others can read the network, use ssh.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import socketserver
import subprocess
import sys
import time

PORT = 2200
NONCE_BYTES = 32
MAC_BYTES = hashlib.sha256().digest_size
MOST_BYTES = 1 << 20
CONNECT_SECONDS = 60.0


def mac(nonce: bytes, command: bytes) -> bytes:
    return hmac.new(os.environ["MPI_AGENT_KEY"].encode(), nonce + command, hashlib.sha256).digest()


class Run(socketserver.StreamRequestHandler):
    """One command: its output goes back while it runs, its exit code last, as a line of its own."""

    def handle(self) -> None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        self.wfile.write(nonce)
        proof, length = self.rfile.read(MAC_BYTES), self.rfile.read(4)
        command = self.rfile.read(min(MOST_BYTES, int.from_bytes(length, "big")))
        if not hmac.compare_digest(proof, mac(nonce, command)):
            return  # a probe of the port, or a stranger
        output = self.connection.fileno()
        done = subprocess.run(["/bin/sh", "-c", command.decode()], stdout=output, stderr=output, check=False)
        self.wfile.write(f"\nexit {done.returncode}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def serve() -> None:
    with Server(("0.0.0.0", PORT), Run) as server:
        server.serve_forever()


def run(host: str, command: str) -> int:
    with connect(host) as connection, connection.makefile("rb") as answer:
        nonce, told = answer.read(NONCE_BYTES), command.encode()
        connection.sendall(mac(nonce, told) + len(told).to_bytes(4, "big") + told)
        last = b""
        for line in answer:
            if last:
                sys.stdout.buffer.write(last)
                sys.stdout.buffer.flush()
            last = line
    word, _, code = last.decode(errors="replace").strip().partition(" ")
    return int(code) if word == "exit" else 255


def connect(host: str) -> socket.socket:
    """A worker that was replaced has the same name and another address."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, PORT), timeout=5)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            connection.settimeout(None)
            return connection


def main() -> int:
    words = sys.argv[1:]
    if words == ["serve"]:
        serve()
        return 0
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] == "-o" else 1]  # options of ssh, such as -x
    return run(words[0], " ".join(words[1:]))


if __name__ == "__main__":
    sys.exit(main())
