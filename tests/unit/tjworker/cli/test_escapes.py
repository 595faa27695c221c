"""Words of others on a terminal: whatever a tenant, a program or a node writes, no command lets a terminal obey it."""

from __future__ import annotations

import ast
import io
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.paths import ROOT
from tests.unit.tjworker.cli.conftest import TypedAt, _Run
from tjstack.overview import job_table
from tjstack.reporter import Reporter
from tjworker.api.resources import EVENTS
from tjworker.api.status import Condition, Failure
from tjworker.base import printable
from tjworker.cli import logs

OUR_COLOURS = re.compile(r"\x1b\[3\dm([A-Z]\w+)\x1b\[0m")
"""A phase, painted."""
TITLE = "\x1b]0;owned\x07"
HOSTILE = {
    "an escape sequence": "\x1b[2J\x1b[H",
    "the title of the window": TITLE,
    "a carriage return that overwrites the line": "all is well\rroot",
    "a right-to-left override": "\u202egnp.exe",
}
EVIL = "".join(HOSTILE.values())
OBEYED = frozenset(c for c in EVIL if not c.isprintable())
SINKS = {"click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_what_a_terminal_obeys_becomes_a_blank(text: str) -> None:
    shown = printable(f"a{text}b")
    assert not OBEYED & set(shown)
    assert len(shown) == len(text) + 2, "the words around it stay"


@dataclass(frozen=True)
class Case:
    args: tuple[str, ...]
    says: str = "gnp.exe"
    """Part of the hostile text that is shown: the case is no case when nothing of it is."""


COMMANDS = {
    "get": Case(("get", "-o", "wide")),
    "get one": Case(("get", "digits")),
    "describe": Case(("describe", "digits")),
    "events": Case(("events", "digits")),
    "timeline": Case(("timeline", "digits"), "p on"),
    "a name that there is not": Case(("get", "no\x1b[2Jbody"), "no job"),
}


@pytest.mark.parametrize("case", COMMANDS.values(), ids=list(COMMANDS))
def test_a_command_shows_words_of_others_and_a_terminal_obeys_none(case: Case, typed_at: TypedAt) -> None:
    failure = Failure(time="2026-01-01T00:00:00Z", pod="p", node=EVIL, reason=EVIL, message=EVIL, log_tail=EVIL)
    condition = Condition(
        type="Running",
        status="True",
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason="Bad",
        message=EVIL,
    )
    typed_at.add(
        make_job("digits")
        .workers(2)
        .status(phase="Running", message=EVIL, failures=(failure,), conditions=(condition,))
    )
    about = {
        "kind": "AITrainingJob",
        "name": "digits",
        "namespace": "default",
        "apiVersion": "elasticdeeplearning.ai/v1",
        "uid": (typed_at.api.get(AITRAININGJOBS, "default", "digits") or {})["metadata"]["uid"],
    }
    event: dict[str, Any] = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Bad", "message": EVIL}
    typed_at.make(EVENTS, {**event, "type": "Warning", "count": 1, "lastTimestamp": "2026-01-01T00:00:00Z"})
    # In colour, as on a terminal: else click would take escape sequences out by itself.
    result = CliRunner().invoke(_Run("tj"), list(case.args), color=True)
    assert case.says in result.output
    shown = OUR_COLOURS.sub(r"\1", result.output)
    assert not OBEYED & set(shown), sorted(OBEYED & set(shown))


def test_json_is_what_the_cluster_says_and_only_escaped(typed_at: TypedAt) -> None:
    typed_at.add(make_job("digits").workers(2).status(phase="Running", message=EVIL))
    result = CliRunner().invoke(_Run("tj"), ["get", "digits", "-o", "json"], color=True)
    assert not OBEYED & set(result.output)
    assert json.loads(result.output)["status"]["message"] == EVIL


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "want_raw"), [(Terminal(), False), (io.StringIO(), True)])
def test_a_log_is_tamed_on_a_terminal_and_whole_in_a_file(
    stream: io.StringIO, want_raw: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", stream)
    with logs.printer(fold=True) as emit:
        emit("trainer-0", f"loss {TITLE}")
    said = stream.getvalue()
    assert (TITLE in said) is want_raw
    assert "\x07" not in said or want_raw
    assert "loss" in said


def test_the_table_and_the_lines_of_tj_up_too(capsys: pytest.CaptureFixture[str]) -> None:
    from tjworker.cli.rows import utc_now

    job = {"metadata": {"name": "digits", "namespace": "default"}, "status": {"phase": "Running", "message": EVIL}}
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    console.print(job_table([job], utc_now()))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    Reporter(plain=True).say(EVIL)
    for text in (shown, capsys.readouterr().out):
        assert "gnp.exe" in text
        assert not (OBEYED - {"\x1b"}) & set(text)
        assert "\x1b]" not in text
        assert "\x1b[2J" not in text


def test_nothing_of_tj_is_said_but_through_the_console() -> None:
    allowed = {"console.py", "reporter.py", "alive.py", "logs.py"}  # what a probe says is its own; logs: see above
    for path in sorted(path for folder in ("tjworker/cli", "tjstack/src") for path in (ROOT / folder).rglob("*.py")):
        if path.name not in allowed:
            calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
            found = {ast.unparse(call.func) for call in calls} & SINKS
            assert not found, f"{path.relative_to(ROOT)} uses {found}; use tjworker.cli.console.echo"
