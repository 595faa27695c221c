"""Write the answers again, or show those to one question:

python -m tests.recorded                                      # after a change that is meant; git shows which changed
python -m tests.recorded show life-17                         # the answers as they are now
python -m tests.recorded show life-17 --since-the-record      # the first one that changed, old beside new
"""

from __future__ import annotations

import sys

from tests.recorded.answers import questions, record, recorded
from tests.recorded.changes import ORDER, show, show_old, tell_change


def main(words: list[str]) -> int:
    if not words:
        record()
        return 0
    asked = {question.name: question for question in questions()}
    if words[0] != "show" or words[1:2] not in [[name] for name in asked] or words[2:] not in ([], [ORDER]):
        print(__doc__, file=sys.stderr)
        return 2
    question = asked[words[1]]
    if words[2:]:
        print(tell_change(question, recorded()[question.name].split(), show_old) or "nothing has changed")
    else:
        print(show(list(question.ask())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
