"""Ports of its own for each pod, on the one network of this machine: a supervisor of bind(2) and connect(2).

Pods have loopback addresses of their own, but most programs bind 0.0.0.0 or 127.0.0.1, and there two pods meet. A
network namespace would part them, from the machine and the Internet too. So the kernel hands those two system calls of
a container to its container runner (seccomp's user notification, as in bypass4netns), which makes them on the
container's own socket with the pod's address in place of the wildcard or of localhost:

- bind to 0.0.0.0, ::, 127.0.0.1 or ::1 with a port becomes bind to the pod's address;
- connect to localhost goes to the pod's address when something of the pod listens there, else to the machine's.

Only streams, and never port 0. Everything else goes on untouched. No protection from a hostile program, and none is
meant: it parts programs that know nothing of each other.

For container runners: standard library only, no root. Linux 5.9 on x86-64 and arm64.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import os
import platform
import select
import struct
from typing import Final

from localcluster.kubelet.namespaces import LIBC, check

_MACHINES: Final = {
    # machine: (audit architecture, seccomp, bind, connect)
    "x86_64": (0xC000003E, 317, 49, 42),
    "aarch64": (0xC00000B7, 277, 200, 203),
}
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_USER_NOTIF, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECV, _SEND, _ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SOL_SOCKET, _SO_TYPE, _SOCK_STREAM, _IPPROTO_IPV6, _IPV6_V6ONLY = 1, 3, 1, 41, 26
_AF_INET, _AF_INET6 = 2, 10
_MAPPED = b"\0" * 10 + b"\xff\xff"
_ANY4, _LOCAL4 = bytes(4), bytes((127, 0, 0, 1))
_ANY6, _LOCAL6 = bytes(16), bytes(15) + b"\1"
_HERE = (_ANY4, _LOCAL4, _ANY6, _LOCAL6, _MAPPED + _LOCAL4, _MAPPED + _ANY4)
_LISTEN = "0A"


class _FilterProgram(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class Handover:
    """A container runner and its child, which hands its calls over. Made before the fork."""

    def __init__(self) -> None:
        self._ready, self.child_ready = os.pipe()
        self.child_go, self._go = os.pipe()

    def give(self) -> None:
        """In the child, last before exec: from here on its parent is asked. Returns when the parent is ready to answer.
        Raises OSError."""
        for of_parent in (self._ready, self._go):
            with contextlib.suppress(OSError):
                os.close(of_parent)
        # A user namespace has made this process unreadable for its parent; exec makes it readable again anyway.
        LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        listener = _install_filter()
        os.write(self.child_ready, str(listener).encode())
        os.close(self.child_ready)
        os.read(self.child_go, 1)
        os.close(self.child_go)
        os.close(listener)

    def take(self, pid: int, address: str) -> None:
        """In the parent: supervises in a thread of its own from here on. A child that did not get so far is left."""
        os.close(self.child_ready)
        os.close(self.child_go)
        with os.fdopen(self._ready, "rb") as ready, os.fdopen(self._go, "wb") as go:
            number = ready.read()
            if number:
                _thread.start_new_thread(Supervisor(_fd_of(pid, int(number)), address).run, ())
                go.write(b"1")


def _install_filter() -> int:
    audit, seccomp, bind, connect = _MACHINES[platform.machine()]
    code = b"".join(
        struct.pack("=HBBI", *step)
        for step in (
            (0x20, 0, 0, 4),  # load the architecture
            (0x15, 0, 4, audit),
            (0x20, 0, 0, 0),  # load the number of the system call
            (0x15, 1, 0, bind),
            (0x15, 0, 1, connect),
            (0x06, 0, 0, _USER_NOTIF),
            (0x06, 0, 0, _ALLOW),
        )
    )
    program = _FilterProgram(len(code) // 8, code)
    # WAIT_KILLABLE (Linux 5.19): without it, a signal has the call made twice.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        for _ in range(2):
            listener = LIBC.syscall(seccomp, _SET_MODE_FILTER, flags, ctypes.byref(program))
            if listener >= 0:
                return int(listener)
            if ctypes.get_errno() != errno.EACCES:
                break
            # Without root, only a process that cannot gain privileges may filter system calls.
            check(LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    raise OSError(ctypes.get_errno(), "seccomp")


class Supervisor:
    def __init__(self, listener: int, address: str) -> None:
        self._listener = listener
        self._address = bytes(int(part) for part in address.split("."))
        self._bind = _MACHINES[platform.machine()][2]

    def run(self) -> None:
        """Until the last process of the container has ended."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            if poll.poll()[0][1] & select.POLLHUP:
                os.close(self._listener)
                return
            with contextlib.suppress(OSError):
                self.step()

    def step(self) -> None:
        """Answers one call. Raises OSError when its caller has gone meanwhile."""
        asked = ctypes.create_string_buffer(80)
        check(LIBC.ioctl(self._listener, ctypes.c_ulong(_RECV), asked), "receive")
        ident, thread, _, call, _, _, fd, where, size = struct.unpack_from("=QIIiIQQQQ", asked)
        try:
            # The caller may have died and its pid be another's: what was read counts only while the call is still
            # valid (seccomp_unotify(2)).
            wanted = _read_memory(thread, where, min(size, 128))
            check(LIBC.ioctl(self._listener, ctypes.c_ulong(_ID_VALID), ctypes.byref(ctypes.c_uint64(ident))), "valid")
            if not _is_here(wanted):
                self._answer(ident, None)
                return
            copy = _fd_of(_process_of(thread), ctypes.c_int(fd).value)
        except OSError:
            self._answer(ident, None)
            return
        if call == self._bind:
            self._finish(ident, copy, lambda: self.bind(copy, wanted))
        else:
            # A listener with a full queue keeps its callers waiting, and may itself wait for this runner.
            _thread.start_new_thread(self._finish, (ident, copy, lambda: self.connect(copy, wanted)))

    def _finish(self, ident: int, copy: int, act: object) -> None:
        try:
            self._answer(ident, act() if callable(act) else None)
        except OSError:
            pass  # the caller has been killed meanwhile
        finally:
            os.close(copy)

    def _answer(self, ident: int, error: int | None) -> None:
        """None: the kernel goes on with the call as it was made."""
        flags, number = (_CONTINUE, 0) if error is None else (0, -error)
        answer = ctypes.create_string_buffer(struct.pack("=QqiI", ident, 0, number, flags), 24)
        check(LIBC.ioctl(self._listener, ctypes.c_ulong(_SEND), answer), "answer")

    def bind(self, fd: int, wanted: bytes) -> int | None:
        if not _is_stream(fd):
            return None
        if _family_of(wanted) == _AF_INET6 and _v6_only(fd):
            # The pod has no such address: where the machine's is taken, any port will do.
            return _call(LIBC.bind, fd, wanted) and _call(LIBC.bind, fd, wanted[:2] + b"\0\0" + wanted[4:])
        return _call(LIBC.bind, fd, self._to_own_address(wanted))

    def connect(self, fd: int, wanted: bytes) -> int | None:
        if not _is_stream(fd) or (_family_of(wanted) == _AF_INET6 and _v6_only(fd)):
            return None
        if not listens(self._address, struct.unpack_from("!H", wanted, 2)[0]):
            return None
        return _call(LIBC.connect, fd, self._to_own_address(wanted))

    def _to_own_address(self, wanted: bytes) -> bytes:
        if _family_of(wanted) == _AF_INET:
            return wanted[:4] + self._address + wanted[8:]
        return wanted[:8] + _MAPPED + self._address + wanted[24:]


def _is_here(wanted: bytes) -> bool:
    """True for an address of the container's own host with a port."""
    family = _family_of(wanted)
    if (family, len(wanted) >= 16) == (_AF_INET, True):
        address = wanted[4:8]
    elif (family, len(wanted) >= 24) == (_AF_INET6, True):
        address = wanted[8:24]
    else:
        return False
    return address in _HERE and wanted[2:4] != b"\0\0"


def _family_of(wanted: bytes) -> int:
    return int(struct.unpack_from("=H", wanted)[0]) if len(wanted) >= 2 else 0


def listens(address: bytes, port: int) -> bool:
    """True if a socket of this machine listens on exactly this address and port."""
    plain = f"{int.from_bytes(address, 'little'):08X}:{port:04X}"
    mapped = f"0000000000000000FFFF0000{plain}"
    for name, local in (("tcp", plain), ("tcp6", mapped)):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as table:  # noqa: PTH123
            for line in table:
                words = line.split()
                if words[1] == local and words[3] == _LISTEN:
                    return True
    return False


def _is_stream(fd: int) -> bool:
    return _read_option(fd, _SOL_SOCKET, _SO_TYPE) == _SOCK_STREAM


def _v6_only(fd: int) -> bool:
    return _read_option(fd, _IPPROTO_IPV6, _IPV6_V6ONLY) != 0


def _read_option(fd: int, level: int, name: int) -> int:
    value, size = ctypes.c_int(-1), ctypes.c_uint(4)
    LIBC.getsockopt(fd, level, name, ctypes.byref(value), ctypes.byref(size))
    return value.value


def _call(function: object, fd: int, address: bytes) -> int:
    """0, or the number of the error."""
    assert callable(function)  # noqa: S101 - a function of the C library
    return 0 if function(fd, address, len(address)) == 0 else ctypes.get_errno()


def _read_memory(thread: int, where: int, size: int) -> bytes:
    fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY)
    try:
        return os.pread(fd, size, where)
    finally:
        os.close(fd)


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
        return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))


def _fd_of(pid: int, fd: int) -> int:
    """A copy of a file descriptor of another process."""
    process = LIBC.syscall(_PIDFD_OPEN, pid, 0)
    check(min(process, 0), "pidfd_open")
    try:
        copy = LIBC.syscall(_PIDFD_GETFD, process, fd, 0)
        check(min(copy, 0), "pidfd_getfd")
        return int(copy)
    finally:
        os.close(process)


def detect() -> bool:
    """Tries whether this machine lets a process supervise its child."""
    if platform.machine() not in _MACHINES:
        return False
    pipes = Handover()
    pid = os.fork()
    if pid == 0:
        try:
            pipes.give()
        finally:
            os._exit(0)
    try:
        pipes.take(pid, "127.0.0.1")
    except OSError:
        return False
    finally:
        os.waitpid(pid, 0)
    return True
