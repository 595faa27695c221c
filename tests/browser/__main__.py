"""`python -m tests.browser URL FOLDER [PATH ...]`: pictures of the page at URL, each view wide, narrow and dark."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.browser.chromium import MISSING, chromium, find_chromium

SHAPES = {"wide": (1280, False), "narrow": (400, False), "dark": (1280, True)}


def main(url: str, folder: Path, paths: list[str]) -> int:
    found = find_chromium()
    if found is None:
        print(MISSING, file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with chromium(found) as tab:
        for path in paths or ["/", "/cluster", "/history"]:
            for name, (width, dark) in SHAPES.items():
                tab.shape(width, dark=dark)
                tab.open(url + path)
                time.sleep(1.5)  # for the eye alone: the first event of the page has come
                word = path.partition("?")[0].strip("/").replace("/", "-") or "jobs"
                tab.picture(folder / f"{word}-{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1].rstrip("/"), Path(sys.argv[2]), sys.argv[3:]))
