"""Namespaces of the kernel for one container: mount points and a host name of its own, as root or as any user.

For container runners: standard library only, and called between fork and exec. Raises OSError where it is refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18
MNT_DETACH = 2
MOST_LINKS = 40
"""On the way of one path, as of the kernel."""


def isolate(mode: str, hostname: str, binds: list[list[Any]]) -> None:
    """A host name of its own, and a mount namespace with these binds (source, target, read-only) in it."""
    uid, gid = os.getuid(), os.getgid()
    if mode == "userns":
        check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS), "unshare")
        map_ids((0, uid), (0, gid))
    else:
        check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS), "unshare")
    name = hostname.encode()
    check(LIBC.sethostname(name, ctypes.c_size_t(len(name))), "sethostname")
    # A shared root would propagate the mounts below to the machine's namespace.
    mount("none", "/", MS_REC | MS_PRIVATE)
    root = ""
    if any(not os.path.exists(target) for _, target, _ in binds):  # noqa: PTH110
        # A tmpfs that shows everything of the root, in which mount points that the machine lacks can be made.
        root = str(binds[0][0]) + ".root"
        os.makedirs(root, exist_ok=True)  # noqa: PTH103
        mirror_folder("/", root)
    for source, written, read_only in binds:
        target = follow_links(root, written)
        make_target(root, source, target)
        mount(source, root + target, MS_BIND | MS_REC)
        if read_only:
            with contextlib.suppress(OSError):
                mount("none", root + target, MS_BIND | MS_REMOUNT | MS_RDONLY)
    if root:
        switch_root(root)
    if mode == "userns" and uid != 0:
        # Back to the user's own id, so that the command does not take itself for root.
        check(LIBC.unshare(CLONE_NEWUSER), "unshare")
        map_ids((uid, 0), (gid, 0))


def follow_links(root: str, path: str) -> str:
    """Resolves a path inside the root, with its links as the container follows them. Seen from outside, a link such as
    /var/run -> /run leads out of the root, and the container does not see what is mounted there."""
    done, left, links = "/", path.split("/")[::-1], 0
    while left:
        part = left.pop()
        here = os.path.dirname(done) if part == ".." else os.path.join(done, part) if part not in ("", ".") else done  # noqa: PTH118, PTH120
        if not os.path.islink(root + here):  # noqa: PTH114
            done = here
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, f"{path}: {os.strerror(errno.ELOOP)}")
        to = os.readlink(root + here)  # noqa: PTH115
        left += to.split("/")[::-1]
        done = "/" if to.startswith("/") else done
    return done


def mirror_folder(folder: str, into: str) -> None:
    """Mounts a tmpfs on `into` whose entries are those of `folder`."""
    names = os.listdir(folder)  # noqa: PTH208
    mount("tmpfs", into, 0, "tmpfs", "mode=755")
    for name in names:
        source, target = os.path.join(folder, name), os.path.join(into, name)  # noqa: PTH118
        if os.path.islink(source):  # noqa: PTH114
            os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211
        elif os.path.isdir(source):  # noqa: PTH112
            os.mkdir(target)  # noqa: PTH102
            with contextlib.suppress(OSError):
                mount(source, target, MS_BIND | MS_REC)
        else:
            with contextlib.suppress(OSError):
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
                mount(source, target, MS_BIND)


def make_target(root: str, source: str, target: str) -> None:
    path = root + target
    if os.path.exists(path) or not root:  # noqa: PTH110
        return
    above = os.path.dirname(target)  # noqa: PTH120
    while above != "/" and not os.path.isdir(root + above):  # noqa: PTH112
        above = os.path.dirname(above)  # noqa: PTH120
    if above != "/":
        # A folder of the machine lies above: show it through a tmpfs too, so that the machine itself is not changed.
        stage = root + "/.stage"
        os.makedirs(stage, exist_ok=True)  # noqa: PTH103
        mirror_folder(root + above, stage)
        mount(stage, root + above, MS_MOVE)
    if os.path.isdir(source):  # noqa: PTH112
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def switch_root(root: str) -> None:
    old = root + "/.old"
    os.makedirs(old, exist_ok=True)  # noqa: PTH103
    check(LIBC.pivot_root(root.encode(), old.encode()), "pivot_root")
    os.chdir("/")
    check(LIBC.umount2(b"/.old", MNT_DETACH), "umount")
    for name in ("/.old", "/.stage"):
        with contextlib.suppress(OSError):
            os.rmdir(name)  # noqa: PTH106


LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, flags: int, kind: str | None = None, options: str | None = None) -> None:
    kind_bytes, option_bytes = (text.encode() if text else None for text in (kind, options))
    done = LIBC.mount(source.encode(), target.encode(), kind_bytes, ctypes.c_ulong(flags), option_bytes)
    check(done, f"mount {source} on {target}")


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def map_ids(uid: tuple[int, int], gid: tuple[int, int]) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid[0]} {uid[1]} 1"), ("gid_map", f"{gid[0]} {gid[1]} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)
