"""The history in a database: who makes its tables, who may share it, and what if it is away, slow or full."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine

from tests.integration.history.test_contract import NOW, POD, A, entry
from tests.support.postgresql import PASSWORD
from tjworker.base import OperatorError, Terminal, Transient
from tjworker.history.open import open_history
from tjworker.history.sql_history import SqlHistory, Waits, describe
from tjworker.history.store import Bounds, LeftOut
from tjworker.history.tables import METADATA, VERSION_TABLE
from tjworker.settings import Settings

SHORT = Waits(connect_seconds=1.0, statement_seconds=0.3)
BOUNDS = Bounds(100.0, 50)
DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)]


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    found: str = request.getfixturevalue("postgresql")
    with driver(found).begin() as connection:
        for table in ("tj_history_parts", "tj_history_jobs", VERSION_TABLE):
            connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
    return found


def driver(url: str) -> Engine:
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def history(url: str, operator: str = "tj") -> SqlHistory:
    return SqlHistory(url, operator, BOUNDS, SHORT)


def test_the_migrations_make_the_tables_that_the_code_asks_for(url: str) -> None:
    history(url).put([entry()], NOW)
    with driver(url).connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_several_that_find_an_empty_database_make_its_tables_once(url: str) -> None:
    failed: list[BaseException] = []
    together = threading.Barrier(4)

    def write(number: int) -> None:
        store = SqlHistory(url, "tj", BOUNDS)
        together.wait()
        try:
            store.put([entry(replace(A, uid=f"uid-{number}"))], NOW)
        except OperatorError as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(history(url).summaries()) == 4


def test_a_database_that_a_later_version_has_migrated_is_written_as_it_is(url: str) -> None:
    history(url).put([entry()], NOW)
    with driver(url).begin() as connection:
        connection.execute(text("UPDATE tj_history_version SET version_num = 'of-a-later-version'"))
        connection.execute(text("ALTER TABLE tj_history_jobs ADD COLUMN later TEXT"))
    store = history(url)
    store.put([entry(replace(A, uid="uid-2"))], NOW)
    assert {one.uid for one in store.summaries()} == {"uid-1", "uid-2"}


def test_operators_of_different_prefixes_share_a_database_and_not_their_jobs(url: str) -> None:
    one, other = history(url, "tj"), history(url, "other")
    one.put([entry(job={"of": "one"}, pods={"p0": POD})], NOW)
    other.put([entry(job={"of": "other"}, keep_seconds=10)], NOW)
    other.put([], NOW + 11)
    assert (other.summaries(), other.story("team-a", "uid-1")) == ([], None)
    story = one.story("team-a", "uid-1")
    assert story is not None
    assert (story.job, story.pods) == ({"of": "one"}, (POD,))


def test_a_reader_before_the_first_write_says_who_makes_the_tables(url: str) -> None:
    with pytest.raises(Transient, match="the watcher makes the tables with its first write"):
        history(url).summaries()


def test_a_character_that_postgresql_refuses_is_replaced_and_stops_no_other_job(url: str) -> None:
    store = history(url)
    odd = replace(A, message="a\0b", restarts=1 << 80)
    store.put([entry(odd), entry(replace(A, uid="uid-2"))], NOW)
    assert {one.uid: (one.message, one.restarts) for one in store.summaries()} == {
        "uid-1": ("a\ufffdb", (1 << 63) - 1),
        "uid-2": ("", 0),
    }


# -- away, slow, full ------------------------------------------------------------------------------
AWAY = {
    "no server": f"postgresql://tj:{PASSWORD}@127.0.0.1:1/jobs?sslmode=disable",
    "no such host": f"postgresql://tj:{PASSWORD}@no-such-host.invalid/jobs",
    "no such folder": "sqlite:////no/such/folder/history.db",
}


def test_an_entry_that_no_database_can_hold_costs_no_other_job(url: str) -> None:
    store, odd = history(url), replace(A, uid="uid-2", message="\ud800")
    assert store.put([entry(A), entry(odd), entry(replace(A, uid="uid-3"))], NOW) == LeftOut(entries=1)
    assert sorted(one.uid for one in store.summaries()) == ["uid-1", "uid-3"]


@pytest.mark.parametrize("row", AWAY)
def test_a_database_that_is_away_is_named_without_its_password(row: str) -> None:
    store = history(AWAY[row])
    for ask in (lambda: store.put([entry()], NOW), store.summaries, lambda: store.story("a", "b")):
        with pytest.raises(Transient) as error:
            ask()
        assert describe(AWAY[row]) in error.value.message
        assert PASSWORD not in error.value.message


@contextmanager
def held(url: str) -> Iterator[None]:
    """Somebody else's transaction has the table."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
        connection.close()
        return
    with driver(url).begin() as held:
        held.execute(text("LOCK TABLE tj_history_jobs IN ACCESS EXCLUSIVE MODE"))
        yield


def test_a_write_waits_for_a_slow_database_so_long_and_works_afterwards(url: str) -> None:
    store = history(url)
    store.put([], NOW)
    with held(url), pytest.raises(Transient):
        store.put([entry()], NOW)
    store.put([entry()], NOW)
    assert store.summaries() == [A]


@pytest.fixture
def no_room(sqlite_url: str) -> Iterator[Callable[[], None]]:
    """Called, it lets no database of this process grow any more."""
    listening: list[Callable[..., None]] = []

    def limit(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # below its size: SQLite takes the size itself

    def call() -> None:
        event.listen(Engine, "connect", limit)
        listening.append(limit)

    yield call
    for one in listening:
        event.remove(Engine, "connect", one)


def test_a_full_database_takes_nothing_and_still_shows_and_drops_what_it_has(
    sqlite_url: str, no_room: Callable[[], None]
) -> None:
    history(sqlite_url).put([entry(keep_seconds=10, job={"text": "x" * 100_000})], NOW)
    no_room()
    store, large = history(sqlite_url), {"text": "x" * 50_000}
    other = entry(replace(A, uid="uid-2"), job=large)
    with pytest.raises(Transient, match="full"):
        store.put([other], NOW)
    assert store.summaries() == [A]
    store.put([other], NOW + 11)
    assert [one.uid for one in store.summaries()] == ["uid-2"]


def test_without_its_packages_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tjworker.history.sql_history")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(Terminal, match=r"pip install '\.\[history\]'"):
        open_history(Settings(history_url="sqlite:////tmp/history.db"))
