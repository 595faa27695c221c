"""The history in PostgreSQL or SQLite (TJ_HISTORY_URL): two tables, which the first write creates or migrates.

No wait for the database is longer than `Waits` allows. Operators with different TJ_KEY_PREFIX may share the database. A
reader needs the right to SELECT, and creates nothing. Objects are plain JSON: a database outlives the form of the
records in Redis, and people look into it. Needs the packages of the extra `history`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

import orjson
import structlog
from sqlalchemy import Connection, Engine, create_engine, delete, event, exc, func, make_url, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from tjworker.base import Transient
from tjworker.history.migrations import migrate
from tjworker.history.parts import LEAST_ROOM, fitting, parts_of, story_of
from tjworker.history.records import Entry, Story, Summary, read_object
from tjworker.history.store import Bounds, LeftOut
from tjworker.history.tables import JOBS, PARTS
from tjworker.store.redis_commands import batches

log = structlog.get_logger(__name__)
ENTRIES_A_WRITE = 100
DROPPED_A_WRITE = 1_000
"""After the bound of jobs was lowered, one statement that drops all of them would exceed its time limit each time."""
MOST_RESTARTS = (1 << 63) - 1
_SUMMARY = tuple(field.name for field in fields(Summary))


@dataclass(frozen=True, slots=True)
class Waits:
    """The longest waits for the database."""

    connect_seconds: float = 5.0
    statement_seconds: float = 10.0
    """For one statement, including its wait for locks."""


class SqlHistory:
    """`url`: postgresql://USER:PASSWORD@HOST/DATABASE with libpq's parameters, or sqlite:////PATH. `operator`:
    TJ_KEY_PREFIX."""

    def __init__(self, url: str, operator: str, bounds: Bounds, waits: Waits | None = None) -> None:
        self._waits = waits or Waits()
        self._operator = operator
        self._bounds = bounds
        self._where = describe(url)
        self._engine = _engine(url, self._waits)
        self._writer = self._engine.execution_options(writes=True)
        self._is_postgresql = self._engine.dialect.name == "postgresql"
        self._statement_milliseconds = int(self._waits.statement_seconds * 1000)
        self._insert: Any = postgresql.insert if self._is_postgresql else sqlite.insert
        self._migrated = False
        self._may_be_many = True
        """Jobs were written since they were last counted. A history without writes is not counted each second."""

    def put(self, entries: Sequence[Entry], now: float) -> LeftOut:
        with self._mapped():
            if not self._migrated:
                with self._writer.begin() as connection:
                    if self._is_postgresql:
                        # A migration may take long, but it must not wait long for a migration of another process.
                        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {self._statement_milliseconds}")
                    migrate(connection)
                self._migrated = True
            # In a transaction of its own: on a full disk the next writes fail, and this one must still free space.
            with self._begin(self._writer) as connection:
                self._drop(connection, now)
            return sum((self._write_apart(part) for part in batches(entries, ENTRIES_A_WRITE)), LeftOut())

    def _write_apart(self, entries: Sequence[Entry]) -> LeftOut:
        """Write the entries in one transaction, or each in its own if the database refuses one of them."""
        self._may_be_many = True
        try:
            with self._begin(self._writer) as connection:
                return self._write(connection, entries)
        except (exc.SQLAlchemyError, ValueError, OverflowError) as error:
            if not _is_about_a_value(error):
                raise
            if len(entries) == 1:
                log.warning("the history's database refuses an entry", uid=entries[0].uid, error=str(error)[:300])
                return LeftOut(entries=1)
        return sum((self._write_apart([entry]) for entry in entries), LeftOut())

    def _write(self, connection: Connection, entries: Sequence[Entry]) -> LeftOut:
        # In the order of the keys, so that two watchers that write during a change of leaders do not deadlock.
        entries = sorted(entries, key=lambda entry: (entry.namespace, entry.uid))
        for entry in entries:
            self._write_job(connection, entry)
        places = [(entry.namespace, entry.uid) for entry in entries]
        counted = (
            select(PARTS.c.namespace, PARTS.c.uid, func.count())
            .where(PARTS.c.operator == self._operator, tuple_(PARTS.c.namespace, PARTS.c.uid).in_(places))
            .group_by(PARTS.c.namespace, PARTS.c.uid)
        )
        sizes = {(namespace, uid): count for namespace, uid, count in connection.execute(counted)}
        rows, left_out = [], 0
        for entry, place in zip(entries, places, strict=True):
            parts = {_storable(name): data for name, data in parts_of(entry, orjson.dumps).items()}
            crowded = sizes.get(place, 0) + len(parts) > LEAST_ROOM
            fit = fitting(parts, self._known_parts(connection, entry) if crowded else ())
            left_out += len(parts) - len(fit)
            key = self._key(entry.namespace, entry.uid)
            rows += [{**key, "part": name, "data": data} for name, data in fit.items()]
        if rows:
            adding = self._insert(PARTS)
            index = [PARTS.c.operator, PARTS.c.namespace, PARTS.c.uid, PARTS.c.part]
            newer = adding.on_conflict_do_update(index_elements=index, set_={"data": adding.excluded.data})
            connection.execute(newer, rows)
        return LeftOut(parts=left_out)

    def _known_parts(self, connection: Connection, entry: Entry) -> set[str]:
        key = self._key(entry.namespace, entry.uid)
        return set(
            connection.execute(select(PARTS.c.part).where(*(PARTS.c[name] == key[name] for name in key))).scalars()
        )

    def _write_job(self, connection: Connection, entry: Entry) -> None:
        # An entry without a summary or a job must not overwrite what the store has.
        news: dict[str, Any] = {}
        if entry.summary is not None:
            news = _row(entry.summary) | {"keep_until": entry.keep_until}
        if entry.job is not None:
            news["job"] = orjson.dumps(entry.job)
        row = {"keep_until": entry.keep_until, **news, **self._key(entry.namespace, entry.uid)}
        adding, key = self._insert(JOBS).values(row), [JOBS.c.operator, JOBS.c.namespace, JOBS.c.uid]
        changed = {name: value for name, value in news.items() if name not in ("namespace", "uid")}
        connection.execute(
            adding.on_conflict_do_update(index_elements=key, set_=changed)
            if changed
            else adding.on_conflict_do_nothing(index_elements=key)
        )

    def _drop(self, connection: Connection, now: float) -> None:
        """Drop jobs whose time is over, then jobs above the bound."""
        mine = JOBS.c.operator == self._operator
        # A subquery, since PostgreSQL has no DELETE with a LIMIT.
        by_end = select(JOBS.c.namespace, JOBS.c.uid).where(mine).order_by(JOBS.c.keep_until)
        place = tuple_(JOBS.c.namespace, JOBS.c.uid)
        over = by_end.where(JOBS.c.keep_until <= now).limit(DROPPED_A_WRITE)
        connection.execute(delete(JOBS).where(mine, place.in_(over)))
        if not self._may_be_many:
            return
        many = connection.execute(select(func.count()).select_from(JOBS).where(mine)).scalar_one() - self._bounds.jobs
        if many > 0:
            connection.execute(delete(JOBS).where(mine, place.in_(by_end.limit(min(many, DROPPED_A_WRITE)))))
        self._may_be_many = many > DROPPED_A_WRITE

    def summaries(self) -> list[Summary]:
        columns = [JOBS.c[name] for name in _SUMMARY]
        known = select(*columns).where(JOBS.c.operator == self._operator, JOBS.c.resource != "")
        with self._mapped(), self._begin(self._engine) as connection:
            return [Summary(*row) for row in connection.execute(known)]

    def story(self, namespace: str, uid: str) -> Story | None:
        columns = [JOBS.c[name] for name in _SUMMARY]
        key = self._key(namespace, uid)
        job = select(*columns, JOBS.c.job).where(JOBS.c.resource != "", *(JOBS.c[name] == key[name] for name in key))
        parts = select(PARTS.c.part, PARTS.c.data).where(*(PARTS.c[name] == key[name] for name in key))
        with self._mapped(), self._begin(self._engine) as connection:
            row = connection.execute(job).one_or_none()
            if row is None:
                return None
            *summary, kept = row
            read = {name: bytes(data) for name, data in connection.execute(parts)}
            return story_of(Summary(*summary), bytes(kept or b""), read, read_object)

    def close(self) -> None:
        self._engine.dispose()

    def _key(self, namespace: str, uid: str) -> dict[str, str]:
        return {"operator": self._operator, "namespace": _storable(namespace), "uid": _storable(uid)}

    @contextmanager
    def _begin(self, engine: Engine) -> Iterator[Connection]:
        with engine.begin() as connection:
            if self._is_postgresql:
                # Set for each transaction, not for the connection: a pooler such as PgBouncer shares connections.
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {self._statement_milliseconds}")
            yield connection

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Raises Transient for each error of SQLAlchemy and its drivers."""
        try:
            yield
        except exc.SQLAlchemyError as error:
            # PostgreSQL raises ProgrammingError for a missing table or right, SQLite OperationalError.
            refused = isinstance(error, exc.ProgrammingError) or "no such table" in str(error)
            problem, then = ("refuses a statement", _HINT) if refused else ("does not answer", "trying again")
            raise Transient(f"the history in {self._where} {problem}: {_words(error)}; {then}") from error


def _is_about_a_value(error: Exception) -> bool:
    """True if the database or its driver cannot store a value: another try would fail as well."""
    if isinstance(error, exc.DBAPIError):
        return isinstance(error, exc.DataError | exc.IntegrityError)
    return isinstance(error, exc.StatementError | ValueError | OverflowError)


_HINT = "the watcher makes the tables with its first write, and each user needs rights on them (docs/page.md)"


def describe(url: str) -> str:
    """The URL without user, password and options."""
    return make_url(url).set(username=None, password=None, query={}).render_as_string()


def _engine(url: str, waits: Waits) -> Engine:
    parsed = make_url(url)
    if parsed.drivername == "postgresql":
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_size=2,
            max_overflow=3,
            pool_timeout=waits.connect_seconds,
            # After a failover the pool holds dead connections. A ping replaces them, where a write would fail.
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": int(waits.connect_seconds),
                "application_name": "trainingjob-operator",
                # A database that vanished without closing the connection is noticed within some 20 s.
                "keepalives_idle": 10,
                "keepalives_interval": 3,
                "keepalives_count": 3,
                "tcp_user_timeout": 20_000,
                # Prepared statements belong to a connection, and a pooler shares connections.
                "prepare_threshold": None,
            },
        )
    else:
        engine = create_engine(
            parsed, pool_timeout=waits.connect_seconds, connect_args={"timeout": waits.connect_seconds}
        )
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:
    # sqlite3 must not begin transactions itself: `_begin_sqlite` does.
    connection.isolation_level = None
    # SQLite refuses this switch at once, whatever the time-out, while another process switches the new database. The
    # mode belongs to the file, so this connection has it from then on, too.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL: with WAL, a power cut loses at most the last transactions, never the file. SQLite heeds foreign keys only
    # on connections that ask for it, and without them the parts of dropped jobs would stay.
    for pragma in ("synchronous = NORMAL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # SQLite refuses a write at once, whatever the time-out, if its transaction began as a read and another process has
    # written since.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _row(summary: Summary) -> dict[str, Any]:
    row = {name: _storable(value) if isinstance(value, str) else value for name, value in asdict(summary).items()}
    # JSON has larger whole numbers than BIGINT.
    return row | {"restarts": min(summary.restarts, MOST_RESTARTS)}


def _storable(text: str) -> str:
    """The text without NUL, which JSON and Kubernetes allow and PostgreSQL refuses."""
    return text.replace("\0", "\ufffd")


def _words(error: exc.SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    return " ".join(str(cause).split())[:300]
