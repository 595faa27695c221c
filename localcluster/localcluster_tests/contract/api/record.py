"""Records the answers of a real cluster under each request of the case files.

`python -m localcluster_tests.contract.api.record KUBECONFIG [FILE ...]`. The answers of WAIT and HOLDS are the
author's: the command reports those that the cluster does not give.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localcluster_tests.contract.api.doors import RealDoor
from localcluster_tests.contract.api.play import play
from localcluster_tests.contract.api.script import FOLDER, Case, Step, parse

SIDE_BY_SIDE = 8


def main(kubeconfig: Path, files: list[Path]) -> int:
    missed = 0
    for file in files:
        cases = parse(file)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as several:
            played = [played for case in several.map(lambda case: _played(case, kubeconfig), cases) for played in case]
        for step, answer in played:
            if step.verb in ("WAIT", "HOLDS") and step.want and answer != step.want:
                missed += 1
                print(f"{file.name}:{step.line}: {step.text}\n  wanted {step.want}\n  came   {answer}")  # noqa: T201
        answers = {
            step.line: step.want if step.verb in ("WAIT", "HOLDS") and step.want else answer for step, answer in played
        }
        file.write_text(_filled_in(file.read_text(encoding="utf-8"), answers), encoding="utf-8")
    return 1 if missed else 0


def _played(case: Case, kubeconfig: Path) -> list[tuple[Step, str]]:
    door = RealDoor(kubeconfig)
    played: list[tuple[Step, str]] = []
    try:
        played.extend(play(case, door))
    except (KeyError, AssertionError) as error:
        print(f"{case.file}.txt:{case.line}: {case.sentence}: {error!r}; " + (played[-1][1] if played else ""))  # noqa: T201
    finally:
        door.close()
    return played


def _filled_in(text: str, answers: dict[int, str]) -> str:
    lines: list[str] = []
    pending: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if pending is not None and not line.startswith(" "):
            lines.append(f"= {pending}".rstrip())
            pending = None
            if line.startswith("="):
                continue
        lines.append(line)
        pending = answers.get(number, pending)
    if pending is not None:
        lines.append(f"= {pending}".rstrip())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [FOLDER / f"{name}.txt" for name in sys.argv[2:]] or sorted(FOLDER.glob("*.txt"))))
