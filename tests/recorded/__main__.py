"""Write the answers down anew, or print some:

python -m tests.recorded                  # after a change that is meant: which answers changed is what git shows
python -m tests.recorded show life-17     # its answers as they are now, to compare with those of another tree
"""

from __future__ import annotations

import sys

import orjson

from tests.recorded.answers import dump, questions, record


def main(words: list[str]) -> int:
    if not words:
        record()
        return 0
    asked = {question.name: question for question in questions()}
    if words[0] != "show" or len(words) != 2 or words[1] not in asked:
        print(__doc__, file=sys.stderr)
        return 2
    for number, (what, said) in enumerate(asked[words[1]].ask()):
        print(f"# {number}: {what}\n{dump(said, orjson.OPT_INDENT_2).decode()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
