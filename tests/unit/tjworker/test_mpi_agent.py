"""The agent that starts MPI's processes in the workers of an MPIJob, and of examples/mpi: over real sockets, with the
file as pods have it."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import until
from tjworker import mpi_agent

FILE = Path(mpi_agent.__file__)


def test_the_agent_of_the_example_is_the_operators() -> None:
    copy = ROOT / "examples/mpi/agent.py"
    assert copy.read_bytes() == FILE.read_bytes(), "cp tjworker/mpi_agent.py examples/mpi/agent.py"


@dataclass
class Worker:
    port: int
    key: Path
    folder: Path

    def launch(self, *words: str, key: Path | None = None) -> subprocess.CompletedProcess[str]:
        """As mpirun in the launcher calls its remote agent."""
        return subprocess.run(
            [sys.executable, "-S", str(FILE), *words],
            env={"MPI_AGENT_KEY_FILE": str(key or self.key), "MPI_AGENT_PORT": str(self.port), "PATH": os.defpath},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    key = tmp_path / "key"
    key.write_text("the job's")
    monkeypatch.setenv("MPI_AGENT_KEY_FILE", str(key))
    with mpi_agent.Server(("127.0.0.1", 0), mpi_agent.Run) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Worker(server.server_address[1], key, tmp_path)
        server.shutdown()
        thread.join()


def test_a_command_runs_there_and_its_output_comes_back(worker: Worker) -> None:
    done = worker.launch("127.0.0.1", "echo", "out;", "echo err >&2;", "printf '%s' 'no end of line'")
    assert done.stdout.split("\n")[:3] == ["out", "err", "no end of line"]
    assert (done.returncode, done.stderr) == (0, "")


def test_who_has_not_the_jobs_key_runs_nothing(worker: Worker) -> None:
    other = worker.folder / "other"
    other.write_text("another job's")
    made = worker.folder / "made"
    assert worker.launch("127.0.0.1", "touch", str(made), key=other).returncode == 255
    assert not made.exists()
    assert worker.launch("127.0.0.1", "touch", str(made)).returncode == 0
    assert made.exists()


def test_a_command_that_was_heard_once_cannot_be_sent_again(worker: Worker) -> None:
    """Each connection has a nonce of its own."""
    made = worker.folder / "made"
    command = f"touch {made}".encode()
    with socket.create_connection(("127.0.0.1", worker.port)) as first, first.makefile("rb") as answer:
        heard = mpi_agent.mac(answer.read(mpi_agent.NONCE_BYTES), command) + len(command).to_bytes(4, "big") + command
    with socket.create_connection(("127.0.0.1", worker.port)) as again, again.makefile("rb") as answer:
        answer.read(mpi_agent.NONCE_BYTES)
        again.sendall(heard)
        assert answer.read() == b""
    assert not made.exists()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_command_ends_with_its_connection(worker: Worker, reset: bool) -> None:
    """mpirun that is killed leaves no process in the workers."""
    pid = worker.folder / "pid"
    command = f"echo $$ > {pid}; sleep 600 & wait".encode()
    with socket.create_connection(("127.0.0.1", worker.port)) as line, line.makefile("rb") as answer:
        proof = mpi_agent.mac(answer.read(mpi_agent.NONCE_BYTES), command)
        line.sendall(proof + len(command).to_bytes(4, "big") + command)
        until("it runs", lambda: pid.exists() and pid.read_text().strip())
        number = int(pid.read_text())
        if reset:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until("it has ended", lambda: not Path(f"/proc/{number}").exists())


TOLD = """
import os, socket
line = socket.socket(fileno=1)
told = [line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
told += [line.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
os.write(1, f"{told} {os.get_blocking(1)}\\n".encode())
"""


def test_a_node_that_vanishes_is_noticed_within_a_minute(worker: Worker) -> None:
    """The socket of a command, as the command itself sees it: its standard output."""
    script = worker.folder / "told.py"
    script.write_text(TOLD)
    told = worker.launch("127.0.0.1", sys.executable, "-S", str(script)).stdout
    assert told.startswith("[1, 30, 10, 3] True\n"), told


SILENT = {"nothing": b"", "half a proof": b"x" * 9, "a proof and no command": b"x" * 32 + (9).to_bytes(4, "big")}


@pytest.mark.parametrize("sent", SILENT.values(), ids=SILENT.keys())
def test_who_proves_nothing_is_not_held(worker: Worker, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_agent, "PROOF_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", worker.port), timeout=60) as line, line.makefile("rb") as answer:
        line.sendall(sent)
        assert len(answer.read()) == mpi_agent.NONCE_BYTES, "its nonce, and the end"


def test_a_command_that_is_too_long_is_not_read(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_agent, "PROOF_SECONDS", 600.0)
    with socket.create_connection(("127.0.0.1", worker.port), timeout=60) as line, line.makefile("rb") as answer:
        line.sendall(b"x" * mpi_agent.MAC_BYTES + (mpi_agent.MOST_BYTES + 1).to_bytes(4, "big"))
        assert len(answer.read()) == mpi_agent.NONCE_BYTES, "its nonce, and the end"


def test_the_launcher_says_that_a_command_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert mpi_agent.main(["worker-0", "x" * (mpi_agent.MOST_BYTES + 1)]) == 255
    assert "the command for worker-0 has 131072 bytes" in capsys.readouterr().err
