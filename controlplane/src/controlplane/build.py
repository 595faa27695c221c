"""Builds the programs of a release from their Go modules into the cache.

They are complete or absent: everything is made in a temporary folder and renamed at the end. A lock, which the kernel
releases when its holder dies, makes a second build wait for the first; it then finds the programs and does nothing.
Network: the Go module proxy as the go command is set up, and (without a Go) pip. go.sum checks every module.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from controlplane import toolchain
from controlplane.binaries import cache_root, cached_folder
from controlplane.errors import BuildError
from controlplane.releases import Program, Release

Say = Callable[[str], None]
PROGRESS_SECONDS = 10.0


def build(release: Release, say: Say) -> Path:
    """The folder with the programs. Raises BuildError with the end of the compiler's output."""
    target = cached_folder(release)
    if target.is_dir():
        return target
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{release.cache_key}.lock").open("w") as lock:
        _wait_for(lock.fileno(), say)
        if target.is_dir():
            return target
        began = time.monotonic()
        go = toolchain.find_go(release.go, root, say)
        names = ", ".join(program.name for program in release.programs)
        say(f"building {names} of Kubernetes {release.version} with {go} into {target} (once; minutes)")
        fresh = root / f".building-{release.cache_key}"
        shutil.rmtree(fresh, ignore_errors=True)  # left by a build that was killed: this process holds the lock
        (fresh / "bin").mkdir(parents=True)
        for program in release.programs:
            _build(go, release, program, fresh / "bin" / program.name, say)
        shutil.rmtree(target.parent, ignore_errors=True)
        fresh.rename(target.parent)
        size = sum(file.stat().st_size for file in target.iterdir())
        say(f"built in {time.monotonic() - began:.0f} s: {size / 1e6:.0f} MB in {target}")
    return target


def _wait_for(lock: int, say: Say) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say("another build of the same programs is running: waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _build(go: Path, release: Release, program: Program, output: Path, say: Say) -> None:
    folder, began = release.folder(program), time.monotonic()
    # The whole list first: it fetches what is missing and shows how much there is to compile.
    packages = len(_go(go, folder, ["list", "-mod=readonly", "-deps", program.package], program, say))
    _go(
        go,
        folder,
        [
            "build",
            "-mod=readonly",
            "-p",
            str(min(2, os.cpu_count() or 1)),
            "-v",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            release.linker_flags(program),
            "-o",
            str(output),
            program.package,
        ],
        program,
        say,
        packages,
    )
    say(f"  {program.name}: {output.stat().st_size / 1e6:.0f} MB in {time.monotonic() - began:.0f} s")


def _go(go: Path, folder: Path, arguments: list[str], program: Program, say: Say, packages: int = 0) -> list[str]:
    """The lines that it printed. With -v each is a package that has been compiled or a module that is fetched."""
    # No C compiler is needed, no workspace or vendor folder of the user's is looked at, and no other Go is downloaded.
    env = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    if go.parent.parent.name == "go" and go.is_relative_to(cache_root()):
        env["GOROOT"] = str(go.parent.parent)
    with subprocess.Popen(
        [str(go), *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        lines: list[str] = []
        fetched, reported = 0, time.monotonic()
        try:
            for line in process.stdout:
                if line.startswith("go: downloading"):
                    fetched += 1
                else:
                    lines.append(line.rstrip())
                if time.monotonic() - reported >= PROGRESS_SECONDS:
                    reported = time.monotonic()
                    done = (
                        f"{len(lines)} of at most {packages} packages compiled"
                        if packages
                        else f"{fetched} modules fetched"
                    )
                    say(f"  {program.name}: {done}")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        end = "\n".join(lines[-15:])
        raise BuildError(
            f"`go {arguments[0]}` of {program.name} failed ({folder}):\n{end}\n"
            "It needs the Go module proxy of `go env GOPROXY`; run it again once that can be reached"
        )
    return lines
