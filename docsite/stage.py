"""Copies the pages of the repository into one folder, so that a site generator finds every link inside it.

Pages link to each other and to examples and manifests as files of the repository. In the site a page is at another
place and a manifest is a download, so each link is written again. A link to a folder becomes plain text.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting-vulnerabilities.md",
}
FILES = "files"
"""Folder of examples and manifests in the site."""
_LINK = re.compile(r"(?P<code>`+[^`]*`+)|(?<=\])\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```|~~~)")


class BrokenLinkError(Exception):
    """A page links to a file that does not exist."""


def stage(output: Path) -> list[str]:
    """Writes the pages below `output`, which is replaced; their paths there. Raises BrokenLinkError."""
    shutil.rmtree(output, ignore_errors=True)
    sources = [ROOT / name for name in ROOT_PAGES] + sorted((ROOT / "docs").rglob("*.md"))
    for source in sources:
        target = output / site_path(source.relative_to(ROOT).as_posix())
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_rewrite(source, output), encoding="utf-8")
    return sorted(site_path(source.relative_to(ROOT).as_posix()) for source in sources)


def site_path(path: str) -> str:
    """The path in the site of a file of the repository."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path.startswith("docs/"):
        # A folder's README is its index; the name README means nothing in an address.
        return re.sub(r"README\.md$", "index.md", path.removeprefix("docs/"))
    return f"{FILES}/{path}"


def _rewrite(source: Path, output: Path) -> str:
    lines, code = [], False
    for line in source.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            code = not code
        lines.append(line if code else _LINK.sub(lambda found: _link(found, source, output), line))
    return "\n".join(lines) + "\n"


def _link(found: re.Match[str], source: Path, output: Path) -> str:
    if found["code"]:
        return found[0]
    target = Path(os.path.normpath(source.parent / found["path"]))
    if not target.exists() or not target.is_relative_to(ROOT):
        raise BrokenLinkError(f"{source.relative_to(ROOT)}: {found['path']} does not exist")
    if target.is_dir():
        return ""
    path = site_path(target.relative_to(ROOT).as_posix())
    if target.suffix != ".md":
        copy = output / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, copy)
    here = PurePosixPath(site_path(source.relative_to(ROOT).as_posix())).parent
    return f"({os.path.relpath(path, here)}{found['anchor'] or ''})"
