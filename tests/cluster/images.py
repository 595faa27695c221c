"""Images without a registry and without an engine: one static program, as an archive that `ctr images import` reads."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controlplane import toolchain
from controlplane.binaries import cache_root

SOURCE = Path(__file__).parent / "image"
PAUSE = "localhost/tj-test-pause:1"
TOOL = "localhost/tj-test-tool:1"


@dataclass(frozen=True, slots=True)
class Archive:
    path: Path
    also: Mapping[str, str] = field(default_factory=dict)
    """Names in the archive -> other names under which pods find the same image."""


def build_tool(folder: Path) -> Path:
    """The program of `image/main.go`."""
    return compile_program(SOURCE / "main.go", folder / "tool", folder)


def compile_program(source: Path, program: Path, module: Path) -> Path:
    """`program`, static, of one Go file; `module`: the folder whose go.mod has what it imports. Raises
    CalledProcessError with the compiler's words."""
    go = toolchain.find_go((1, 21), cache_root(), print)
    subprocess.run(
        [str(go), "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(program), str(source)],
        cwd=module,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"},
    )
    return program


def write_archive(program: Path, archive: Path) -> Path:
    """`program` as /tool of two images: PAUSE, which runs `tool pause` of itself, and TOOL."""
    layer = _tar({"tool": program.read_bytes()}, mode=0o755)
    files = {"layer.tar": layer}
    manifest = []
    for name, command in ((PAUSE, ["pause"]), (TOOL, [])):
        config = json.dumps(
            {
                "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
                "os": "linux",
                "config": {"Entrypoint": ["/tool"], "Cmd": command, "User": "65532:65532"},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            }
        ).encode()
        file = f"{hashlib.sha256(config).hexdigest()}.json"
        files[file] = config
        manifest.append({"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]})
    archive.write_bytes(_tar({**files, "manifest.json": json.dumps(manifest).encode()}))
    return archive


def _tar(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
