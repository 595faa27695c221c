"""Starts MPI's processes in other pods whose image has no sshd. The operator puts this file into the pods of an MPIJob
as /etc/mpi/agent.py, in place of `kubectl exec`. A job of frameworkType mpi has it in its image, as examples/mpi does,
which holds a copy. It runs on any python3 from 3.6 on and imports only its standard library.

    agent.py serve [-- COMMAND...]  in a worker: serves until the pod ends, or COMMAND does
    agent.py HOST COMMAND...        in the launcher, as mpirun's remote agent: runs COMMAND on HOST

Both read the job's key from a Secret. A worker sends a nonce, and accepts a command only with the HMAC of nonce and
command under that key. That proves the sender. It does not encrypt: MPI's own traffic is not encrypted either.
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
"""The longest command: Linux allows no longer argument."""
PROOF_SECONDS = 10.0
"""How long a connection may take to send its command and proof: a stranger must not hold a thread for longer."""
KEEP_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A node that vanishes closes no connection. After a minute of silence the kernel does."""
CONNECT_SECONDS = 120.0
"""The launcher starts when its workers run, and their agents listen a moment later."""
GRACE_SECONDS = 10.0
"""How long the processes of a command may take to end before they are killed."""


def mac(nonce: bytes, command: bytes) -> bytes:
    key = pathlib.Path(os.environ.get("MPI_AGENT_KEY_FILE", KEY)).read_bytes()
    return hmac.new(key, nonce + command, hashlib.sha256).digest()


class Run(socketserver.StreamRequestHandler):
    """Runs one command: sends its output while it runs, and its exit code as the last line. The command ends with the
    connection, like a command of ssh."""

    def handle(self) -> None:
        try:
            command = receive_command(self.connection)
        except OSError:
            # The sender was too slow, or has gone.
            return
        if command is None:
            # A probe of the port, or a stranger.
            return
        # The command inherits this socket as its output. A time-out would make it non-blocking, and prints would fail.
        self.connection.settimeout(None)
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
            # The launcher was killed, or its node is gone.
            return
        finally:
            if child.poll() is None:
                end(child)
        self.wfile.write(f"\nexit {child.returncode if child.returncode >= 0 else 128 - child.returncode}\n".encode())


def receive_command(line: socket.socket) -> "bytes | None":
    """The command, if its proof is right; else None."""
    # One deadline for all reads: a time-out for each would let a stranger send a byte now and then for ever.
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
    """Read `count` bytes, or fewer if the other side has closed."""
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
    # The whole group: the shell has started MPI's processes.
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
    sent = command.encode()
    if len(sent) > MOST_BYTES:
        sys.stderr.write(f"the command for {host} has {len(sent)} bytes, and {MOST_BYTES} are allowed; shorten it\n")
        return 255
    with connect(host) as connection, connection.makefile("rb") as answer:
        nonce = answer.read(NONCE_BYTES)
        connection.sendall(mac(nonce, sent) + len(sent).to_bytes(4, "big") + sent)
        last = b""
        # One line behind: the last line is the exit code, and not output.
        for line in answer:
            sys.stdout.buffer.write(last)
            sys.stdout.buffer.flush()
            last = line
    word, _, code = last.decode(errors="replace").strip().partition(" ")
    # 255 is ssh's own exit code for a lost connection: mpirun then ends the job.
    return int(code) if word == "exit" else 255


def connect(host: str) -> socket.socket:
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            # Resolved with each try: a worker that was replaced has the same name and another address.
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
    # mpirun passes options of ssh, such as -x.
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[2 if arguments[0] == "-o" else 1 :]
    return run(arguments[0], " ".join(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
