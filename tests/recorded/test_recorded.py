"""No answer of a pure part has changed that nobody meant to change (ADR 47)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded import answers
from tests.recorded.answers import PYTHON, Question, dump, is_comparable, questions, recorded

ASKED = questions()


@pytest.mark.skipif(not is_comparable(), reason="the record is of Python {}.{}".format(*PYTHON))
@pytest.mark.parametrize("question", ASKED, ids=lambda question: question.name)
def test_the_answers_are_those_of_the_record(question: Question) -> None:
    was, now = recorded()[question.name].split(), question.digests().split()
    if was == now:
        return
    first = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    before = [what for what, _ in question.ask()][: first + 1]
    said = [dump(answer).decode() for _, answer in question.ask()][first : first + 1]
    pytest.fail(
        f"answer {first} is another one than it was. If that is meant: python -m tests.recorded\n"
        f"asked: {'; '.join(before)}\nit is now: {''.join(said)[:4000]}\n"
        f"what it was: python -m tests.recorded show {question.name}, on the tree before"
    )


def test_the_record_has_each_question_and_no_other() -> None:
    assert [question.name for question in ASKED] == list(recorded())


def test_another_python_writes_nothing_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "RECORD", tmp_path / "record.txt")
    monkeypatch.setattr(answers, "PYTHON", (3, 99))
    with pytest.raises(SystemExit, match=r"the record is of Python 3\.99"):
        answers.record()
    assert not answers.RECORD.exists()
