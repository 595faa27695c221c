"""Starts MPI's processes in other pods, where the image has no sshd. The operator puts this file into the pods of an
MPIJob as /etc/mpi/agent.py, in the place of `kubectl exec`; a job of frameworkType mpi has it in its image, such as
examples/mpi, which holds a copy. It runs on any python3 from 3.6 on and imports nothing but its library.

    agent.py serve [-- COMMAND...]  in a worker: waits for commands for as long as the pod lives, or COMMAND runs
    agent.py HOST COMMAND...        in the launcher, as mpirun's remote agent: runs it there

Both read the job's key from a Secret. A worker sends a nonce; a command counts with the HMAC of nonce and command under
that key. It proves who sent the command and hides nothing, as MPI's own traffic does not either.
"""

import contextlib
import hashlib
import hmac
import os
import pathlib
import secrets
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time

KEY = "/etc/mpi-agent/key"
PORT = int(os.environ.get("MPI_AGENT_PORT", "2200"))
NONCE_BYTES = 32
MAC_BYTES = 32
MOST_BYTES = (128 << 10) - 1
"""Of a command: Linux takes no longer argument."""
PROOF_SECONDS = 10.0
"""Until a connection has proved itself: a stranger's is not held for longer."""
KEEP_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A node that has vanished says nothing: after a minute of silence its connection is lost."""
CONNECT_SECONDS = 120.0
"""The launcher starts when its workers run, and their agents come up in the moment after that."""
GRACE_SECONDS = 10.0
"""For what a command has started, before it is killed."""


def mac(nonce: bytes, command: bytes) -> bytes:
    key = pathlib.Path(os.environ.get("MPI_AGENT_KEY_FILE", KEY)).read_bytes()
    return hmac.new(key, nonce + command, hashlib.sha256).digest()


class Run(socketserver.StreamRequestHandler):
    """One command: its output goes back while it runs, its exit code last, as a line of its own. It ends with the
    connection, as a command of ssh does."""

    def handle(self) -> None:
        try:
            command = proved(self.connection)
        except OSError:
            return  # it had its time, or went away
        if command is None:
            return  # a probe of the port, or a stranger
        self.connection.settimeout(None)  # the command gets this socket, and a time-out would make it non-blocking
        keep_alive(self.connection)
        out = self.connection.fileno()
        shell = ["/bin/sh", "-c", command.decode()]
        child = subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            while child.poll() is None:
                readable, _, _ = select.select([self.connection], [], [], 0.2)
                if readable and not self.connection.recv(1):
                    return
        except OSError:
            return  # the launcher was killed, or its node is gone
        finally:
            if child.poll() is None:
                end(child)
        self.wfile.write(f"\nexit {child.returncode if child.returncode >= 0 else 128 - child.returncode}\n".encode())


def proved(line: socket.socket) -> "bytes | None":
    """The command that came with the right proof. All of it must come within one time-out."""
    deadline = time.monotonic() + PROOF_SECONDS
    nonce = secrets.token_bytes(NONCE_BYTES)
    line.settimeout(PROOF_SECONDS)
    line.sendall(nonce)
    proof, length = read(line, MAC_BYTES, deadline), int.from_bytes(read(line, 4, deadline), "big")
    if length > MOST_BYTES:
        return None
    command = read(line, length, deadline)
    return command if hmac.compare_digest(proof, mac(nonce, command)) else None


def read(line: socket.socket, count: int, deadline: float) -> bytes:
    """So many bytes, or fewer where the other side has ended."""
    got = b""
    while len(got) < count:
        line.settimeout(max(0.001, deadline - time.monotonic()))
        more = line.recv(count - len(got))
        if not more:
            break
        got += more
    return got


def keep_alive(line: socket.socket) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def end(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def serve(command: "list[str]") -> int:
    with Server(("0.0.0.0", PORT), Run) as server:  # noqa: S104  a pod's own network, and every command is proved
        threading.Thread(target=server.serve_forever, daemon=True).start()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        if command:
            child = subprocess.Popen(command)
            try:
                return child.wait()
            finally:
                child.terminate()
        while True:
            signal.pause()


def run(host: str, command: str) -> int:
    told = command.encode()
    if len(told) > MOST_BYTES:
        sys.stderr.write(f"the command for {host} has {len(told)} bytes, and {MOST_BYTES} are allowed; shorten it\n")
        return 255
    with connect(host) as connection, connection.makefile("rb") as answer:
        nonce = answer.read(NONCE_BYTES)
        connection.sendall(mac(nonce, told) + len(told).to_bytes(4, "big") + told)
        last = b""
        for line in answer:
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
            keep_alive(connection)
            return connection


def main(arguments: "list[str]") -> int:
    if arguments[:1] == ["serve"]:
        return serve(arguments[2:] if arguments[1:2] == ["--"] else arguments[1:])
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[2 if arguments[0] == "-o" else 1 :]  # options of ssh, such as -x
    return run(arguments[0], " ".join(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
