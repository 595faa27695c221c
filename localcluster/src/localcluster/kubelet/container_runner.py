"""One container's keeper: starts the command, writes its log, and writes down how it ended. Runs alone, on the standard
library only (`containers.RUNNER`), so that it lives on when the kubelet dies and a kubelet that comes back can read
everything from the folder.

In the folder: `spec.json` (read), `state.json` (pid and start time, once the command runs), `exit.json` (exit code, or
why it could not start; written atomically, once), `log` (CRI lines, rotated). The command gets a session of its own,
a host name, mounts and ports of its own when the spec asks for them. Whatever it leaves behind is killed when it ends.
Never restarts anything.

`exec [--errors FD] [--tty] <folder> -- command ...` runs a command in the container: same environment, folder and
namespaces. Why it could not be started is written to the descriptor, else to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from itertools import pairwise
from typing import Any

from localcluster.kubelet.namespaces import LIBC, isolate
from localcluster.kubelet.ports import Handover

MARK = "LOCALCLUSTER_CONTAINER"
"""A variable in the environment of each process of a container. It finds processes that left their session, after their
container runner is gone, and those that `exec` has started."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LINE_BYTES = 16 * 1024
READ_BYTES = 16 * 1024
NOT_FOUND = 'exec: "%s": executable file not found in $PATH'


def main(arguments: list[str]) -> int:
    if arguments[0] == "exec":
        return run_in_container(arguments[1:])
    return keep(arguments[0])


def keep(folder: str) -> int:
    os.chdir(folder)
    with open("spec.json", encoding="utf-8") as file:  # noqa: PTH123 - no pathlib here: this process stays small
        spec = json.load(file)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Processes that leave the command's session become this process' children, and can be found at the end.
    become_subreaper()
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    streams = {name: os.pipe() for name in ("stdout", "stderr")}
    error_read, error_write = os.pipe()
    started = time.time()
    handover = Handover() if spec["address"] else None
    pid = os.fork()
    if pid == 0:
        become_container(spec, streams["stdout"][1], streams["stderr"][1], error_write, handover)
    if handover is not None:
        handover.take(pid, spec["address"])
    for fd in (streams["stdout"][1], streams["stderr"][1], error_write):
        os.close(fd)
    with os.fdopen(error_read, "rb") as file:
        failure = file.read()
    if failure:
        os.waitpid(pid, 0)
        record = {"error": failure.decode(errors="replace"), "started": started, "finished": time.time()}
        write_json("exit.json", record)
        tell_kubelet()
        return 1
    runner = {"runner": os.getpid(), "runner_ticks": start_ticks(os.getpid())}
    write_json("state.json", {**runner, "pid": pid, "pid_ticks": start_ticks(pid), "started": started})
    tell_kubelet()
    logs = ContainerLog(spec.get("log_bytes", 10 * 1024 * 1024))
    code = serve(pid, wake_read, {streams[name][0]: name for name in streams}, logs)
    write_json("exit.json", {"code": code, "started": started, "finished": time.time()})
    return 0


def serve(pid: int, wake: int, pipes: dict[int, str], logs: ContainerLog) -> int:
    """Copies output until the command has ended and its output is drained. The exit code as a shell gives it."""
    for fd in pipes:
        os.set_blocking(fd, False)
    code = None
    open_pipes = dict(pipes)
    while code is None:
        ready, _, _ = select.select([wake, *open_pipes], [], [])
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 512)
        copy_output(open_pipes, logs)
        code = reap(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # A process that the command left in its group would hold the log's pipe open.
        os.killpg(pid, signal.SIGKILL)
    kill_orphans()
    if os.path.exists("beside"):  # noqa: PTH110
        kill_marked(os.getcwd())  # noqa: PTH109
    copy_output(open_pipes, logs)
    logs.close()
    return code


def copy_output(pipes: dict[int, str], logs: ContainerLog) -> None:
    for fd, name in list(pipes.items()):
        while True:
            try:
                data = os.read(fd, READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                del pipes[fd]
                break
            logs.add(name, data)


def reap(pid: int) -> int | None:
    """Takes in every child that has ended; the exit code of the command when it is among them."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == pid:
            exit_code = os.waitstatus_to_exitcode(status)
            code = 128 - exit_code if exit_code < 0 else exit_code


def kill_orphans() -> None:
    """Kills what the command left behind: as a subreaper, this process has become its parent."""
    for _ in range(1000):
        children = children_of_this_process()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def kill_marked(mark: str) -> None:
    """What `exec` has started is no child of this process, and ends with the container all the same."""
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes that carry a container's mark."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):  # noqa: PTH208, PTH112
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environ:  # noqa: PTH123
            if wanted in environ.read().split(b"\0"):
                found.append(int(pid))
    return found


def children_of_this_process() -> list[int]:
    mine = str(os.getpid())
    with contextlib.suppress(OSError):
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208
        return [pid for pid in pids if stat_fields(pid)[1:2] == [mine]]
    return []


class ContainerLog:
    """Lines in the CRI's format, into `log`; `log.1` is what was there before the last rotation."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = {"stdout": b"", "stderr": b""}
        self._fd = self._open()
        self._size = os.fstat(self._fd).st_size

    def _open(self) -> int:
        return os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)

    def add(self, stream: str, data: bytes) -> None:
        now = time.time_ns()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z {stream} "
        prefix, out = stamp.encode(), []
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        for whole in lines:
            parts, end = in_parts(prefix, whole)
            out += [*parts, prefix + b"F " + end + b"\n"]
        parts, self._rest[stream] = in_parts(prefix, rest)
        self._write(b"".join([*out, *parts]))

    def _write(self, data: bytes) -> None:
        if not data:
            return
        if self._size and self._size + len(data) > self._max_bytes:
            os.close(self._fd)
            os.replace("log", "log.1")  # noqa: PTH105
            self._fd, self._size = self._open(), 0
        # A full disk must not kill the command: its output is lost instead.
        with contextlib.suppress(OSError):
            os.write(self._fd, data)
        self._size += len(data)

    def close(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                self.add(stream, b"\n")
        os.close(self._fd)


def in_parts(prefix: bytes, line: bytes) -> tuple[list[bytes], bytes]:
    """What is too long for one line of the log, as partial lines, and the rest."""
    parts = []
    while len(line) > LINE_BYTES:
        parts.append(prefix + b"P " + line[:LINE_BYTES] + b"\n")
        line = line[LINE_BYTES:]
    return parts, line


# --- the container's side -------------------------------------------------------------------------------------------


def become_container(spec: dict[str, Any], stdout: int, stderr: int, error_fd: int, handover: Handover | None) -> None:
    """Never returns: executes the command, or writes why it cannot and exits."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        # The descriptor closes with a successful exec: from an empty read the parent knows that the command runs.
        os.set_inheritable(error_fd, False)
        close_all_but(0, 1, 2, error_fd, *((handover.child_ready, handover.child_go) if handover else ()))
        enter(spec)
        if handover is not None:
            handover.give()
        execute(spec["command"], spec["env"])
    except BaseException as error:  # noqa: BLE001 - between fork and exec, all that can be done is to report and exit
        os.write(error_fd, str(error).encode())
    os._exit(128)


def run_in_container(arguments: list[str]) -> int:
    errors = int(arguments[1]) if arguments[0] == "--errors" else 2
    tty, at = "--tty" in arguments[:3], arguments.index("--")
    with open(os.path.join(arguments[at - 1], "spec.json"), encoding="utf-8") as file:  # noqa: PTH123, PTH118
        spec = json.load(file)
    with open(os.path.join(arguments[at - 1], "beside"), "w", encoding="ascii"):  # noqa: PTH123, PTH118
        pass
    env = {"TERM": "xterm", **spec["env"]} if tty else spec["env"]
    handover = Handover() if spec["address"] else None
    pid = os.fork() if handover is not None else 0
    if pid == 0:
        try:
            os.set_inheritable(errors, errors == 2)
            enter(spec)
            if handover is not None:
                LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                handover.give()
            if tty:
                take_terminal()
            execute(arguments[at + 1 :], env)
        except Exception as error:  # noqa: BLE001
            os.write(errors, str(error).encode())
        os._exit(126)
    assert handover is not None  # noqa: S101 - else there is no child
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to the command, too
    handover.take(pid, spec["address"])
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return 128 - code if code < 0 else code


def take_terminal() -> None:
    import fcntl
    import termios

    with contextlib.suppress(PermissionError):
        os.setsid()  # only who leads a session has a terminal; without supervision this process does already
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def enter(spec: dict[str, Any]) -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    if spec["isolation"] != "none":
        isolate(spec["isolation"], spec["hostname"], spec["binds"])
    folder = spec["cwd"]
    if spec.get("make_cwd"):
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    try:
        os.chdir(folder)
    except FileNotFoundError as error:
        why = f'chdir to cwd ("{folder}") set in config.json failed: no such file or directory'
        raise FileNotFoundError(why) from error


def execute(command: list[str], env: dict[str, str]) -> None:
    try:
        os.execvpe(command[0], command, env)  # noqa: S606
    except FileNotFoundError:
        where = command[0]
        if "/" in where:
            raise FileNotFoundError(f'exec: "{where}": stat {where}: no such file or directory') from None
        raise FileNotFoundError(NOT_FOUND % where) from None
    except PermissionError:
        if "/" not in command[0]:  # a folder of the PATH that cannot be read is passed over
            raise FileNotFoundError(NOT_FOUND % command[0]) from None
        raise PermissionError(f'exec: "{command[0]}": permission denied') from None


def close_all_but(*kept: int) -> None:
    for last, following in pairwise((*sorted(kept), max(256, *kept) + 1024)):
        os.closerange(last + 1, following)


# --- small things ---------------------------------------------------------------------------------------------------


def become_subreaper() -> None:
    with contextlib.suppress(AttributeError):
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def tell_kubelet() -> None:
    """The kubelet waits for the end of this process' standard output, if it still lives."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the name: state, parent, group ... Empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def start_ticks(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def write_json(name: str, value: dict[str, Any]) -> None:
    with open(name + ".tmp", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(value, file)
    os.replace(name + ".tmp", name)  # noqa: PTH105
