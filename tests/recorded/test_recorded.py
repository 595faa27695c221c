"""No answer of a pure part has changed that nobody meant to change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.recorded import answers
from tests.recorded.answers import PYTHON, Question, is_comparable, questions, recorded
from tests.recorded.changes import ROOT, show, show_old, tell_change
from tests.support.tiers import one_in

ASKED = questions()
ONE_OF_EACH = {question.name.partition("-")[0]: question for question in ASKED}
_told: list[str] = []
same_python = pytest.mark.skipif(not is_comparable(), reason="the record is of Python {}.{}".format(*PYTHON))


@same_python
@pytest.mark.parametrize("question", one_in(4, ASKED), ids=lambda question: question.name)
def test_the_answers_are_those_of_the_record(question: Question) -> None:
    # The old answer takes seconds, so the first changed question of a process alone shows it.
    told = tell_change(question, recorded()[question.name].split(), None if _told else show_old)
    if told:
        _told.append(question.name)
        pytest.fail(told, pytrace=False)


def test_the_record_has_each_question_and_no_other() -> None:
    assert [question.name for question in ASKED] == list(recorded())


@pytest.mark.parametrize("question", ONE_OF_EACH.values(), ids=lambda question: question.name)
def test_a_question_gives_the_same_answers_each_time_it_is_asked(question: Question) -> None:
    assert question.digests() == question.digests()


QUESTION = Question("life-x", lambda: iter([("created", {"pods": 2}), ("a pod failed", {"pods": 1, "why": "lost"})]))
FIRST, SECOND = QUESTION.digests().split()
OLD = show([("created", {"pods": 2}), ("a pod failed", {"pods": 2, "why": "lost"})])
OLD_SECOND = answers.digest({"pods": 2, "why": "lost"})
MESSAGES = {
    "The first answer that changed is shown, old beside new, with what led to it.": (
        [FIRST, OLD_SECOND],
        ("answer 1 is not the recorded one", "created; a pod failed\n", '-  "pods": 2,\n+  "pods": 1,', "did not mean"),
    ),
    "An answer that comes no more is named.": (
        [FIRST, SECOND, "0000"],
        ("answer 2 no longer comes", "after 2 answers, the record has 3"),
    ),
    "An answer that is new is named.": ([FIRST], ("answer 1 is new", '+  "pods": 1,')),
    "An old answer that has not the recorded digest is not shown.": (
        [FIRST, "0000"],
        ("answer 1 is not", "The old answer cannot be shown"),
    ),
    "Nothing is said where nothing has changed.": ([FIRST, SECOND], ()),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_the_message_says_what_has_changed(case: str) -> None:
    was, want = MESSAGES[case]
    told = tell_change(QUESTION, was, lambda _: OLD)
    assert bool(told) == bool(want)
    assert [words for words in want if words not in told] == []


@same_python
@pytest.mark.skipif(not (shutil.which("git") and (ROOT / ".git").exists()), reason="no checkout")
@pytest.mark.long
def test_the_tree_that_wrote_the_record_gives_its_answers() -> None:
    told = tell_change(QUESTION, recorded()["life-0"].split(), lambda _: show_old("life-0"))
    assert '-  "own status"' in told, told


def test_another_python_writes_nothing_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "RECORD", tmp_path / "record.txt")
    monkeypatch.setattr(answers, "PYTHON", (3, 99))
    with pytest.raises(SystemExit, match=r"the record is of Python 3\.99"):
        answers.record()
    assert not answers.RECORD.exists()
