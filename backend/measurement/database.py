"""A database of measurements in SQLite. Each measurement is stored immediately; measurements can be
reused, exported and merged.

A family is a set of comparable measurements: one kernel (by content), arguments of one shape, one
kind of device with one driver, one compiler. The file is in WAL mode: several processes may use it,
and a measurement survives the process once `record` has returned.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from tileir.backend.measurement.errors import TuneError, tune_error
from tileir.backend.measurement.outcome import CandidateOutcome, Status
from tileir.backend.runtime.disk_store import cache_folder

VERSION = 1
"""The version of the tables."""

_TABLES = """
create table if not exists family (
    id integer primary key, kernel text not null, content text not null, shape text not null,
    class text not null, device text not null, driver text not null, compiler text not null,
    unique (content, shape, device, driver, compiler));
create table if not exists outcome (
    family integer not null references family (id), point text not null,
    launches integer not null, status text not null, seconds real, samples text not null,
    code text not null, message text not null, predicted real, registers integer, spills integer,
    shared integer, digest text not null, compiling real not null, choices text not null,
    written text not null, primary key (family, point, launches)) without rowid;
create index if not exists by_class on family (content, class, device);
"""
_COLUMNS = (
    "point", "launches", "status", "seconds", "samples", "code", "message", "predicted",
    "registers", "spills", "shared", "digest", "compiling", "choices", "written",
)  # fmt: skip


@attrs.frozen
class Family:
    """The properties that measurements must share to be comparable."""

    kernel: str
    content: str
    shape: str
    shape_class: str
    device: str
    driver: str
    compiler: str

    @property
    def key(self) -> tuple[str, ...]:
        """A key that identifies the family."""
        return self.content, self.shape, self.device, self.driver, self.compiler


class Database:
    """A database of measurements in the file `path`; `:memory:` stores nothing on disk."""

    def __init__(self, path: str | Path = ":memory:") -> None:
        self.path = str(path)
        self._lock = threading.Lock()
        try:
            if self.path != ":memory:":
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
            self._prepare()
        except (sqlite3.Error, OSError, ValueError) as error:
            raise tune_error(f"{self.path}: {error}", "TIR1103") from None

    def _prepare(self) -> None:
        run = self._connection.execute
        version = run("pragma user_version").fetchone()[0]
        if version > VERSION:
            message = f"{self.path} has version {version}; this release reads {VERSION}"
            raise tune_error(message, "TIR1103")
        run("pragma journal_mode = wal")
        run("pragma synchronous = normal")
        self._connection.executescript(_TABLES)
        run(f"pragma user_version = {VERSION}")
        self._connection.commit()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def usual() -> Database:
        """Return the database `tuning.db` in the user's cache folder.

        The environment variable TILEIR_CACHE names another folder; `off` stores nothing.
        """
        off = os.environ.get("TILEIR_CACHE") == "off"
        return Database(":memory:" if off else cache_folder() / "tuning.db")

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            try:
                with self._connection:
                    yield self._connection
            except sqlite3.Error as error:
                raise tune_error(f"{self.path}: {error}", "TIR1103") from None

    def record(self, family: Family, outcome: CandidateOutcome) -> None:
        """Store `outcome`; it replaces an older one of the same point and number of launches."""
        with self._writing() as connection:
            _insert(connection, _family_id(connection, family), _row(outcome))

    def outcomes(self, family: Family) -> list[CandidateOutcome]:
        """Return all outcomes of `family`, the oldest first."""
        query = (
            f"select {', '.join(_COLUMNS)} from outcome join family on family = id where "
            "(content, shape, device, driver, compiler) = (?, ?, ?, ?, ?) order by written, point"
        )
        return [_outcome(row) for row in self._rows(query, family.key)]

    def families(self) -> list[Family]:
        """Return all families, ordered by kernel and shape."""
        query = (
            "select kernel, content, shape, class, device, driver, compiler from family "
            "order by kernel, shape, device"
        )
        return [Family(*row) for row in self._rows(query, ())]

    def best(self, content: str, shape_class: str, device: str) -> CandidateOutcome | None:
        """Return the fastest candidate of a kernel for a class of shapes on a device.

        If several shapes of the class were tuned, this is the fastest candidate of the shape that
        was tuned last.
        """
        query = (
            f"select {', '.join(_COLUMNS)} from outcome join family on family = id "
            "where (content, class, device, status) = (?, ?, ?, 'measured') and family = ("
            "select family from outcome join family on family = id "
            "where (content, class, device) = (?, ?, ?) order by written desc limit 1) "
            "order by seconds limit 1"
        )
        key = (content, shape_class, device)
        return next((_outcome(row) for row in self._rows(query, key * 2)), None)

    def export(self) -> dict[str, Any]:
        """Return all rows as values that JSON can represent."""
        return {
            "version": VERSION,
            "families": [
                {"family": attrs.asdict(family), "outcomes": self._export_family(family)}
                for family in self.families()
            ],
        }

    def _export_family(self, family: Family) -> list[dict[str, Any]]:
        query = (
            f"select {', '.join(_COLUMNS)} from outcome join family on family = id where "
            "(content, shape, device, driver, compiler) = (?, ?, ?, ?, ?) order by point, launches"
        )
        return [dict(zip(_COLUMNS, row, strict=True)) for row in self._rows(query, family.key)]

    def merge(self, exported: Mapping[str, Any]) -> int:
        """Add rows that `export` returned elsewhere, and return the number of changed rows.

        Of two outcomes of one point, the later one is kept. Raises `TuneError` (TIR1103).
        """
        try:
            if exported["version"] > VERSION:
                raise tune_error(f"measurements of version {exported['version']}", "TIR1103")
            with self._writing() as connection:
                return sum(
                    _insert(connection, at, tuple(row[c] for c in _COLUMNS))
                    for each in exported["families"]
                    for at in [_family_id(connection, Family(**each["family"]))]
                    for row in each["outcomes"]
                )
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise tune_error(f"no measurements as they are exported: {error}", "TIR1103") from None

    def _rows(self, query: str, values: Iterable[Any]) -> list[Any]:
        with self._lock:
            try:
                return self._connection.execute(query, tuple(values)).fetchall()
            except sqlite3.Error as error:
                raise tune_error(f"{self.path}: {error}", "TIR1103") from None


def _family_id(connection: sqlite3.Connection, family: Family) -> int:
    connection.execute(
        "insert or ignore into family (kernel, content, shape, class, device, driver, compiler) "
        "values (?, ?, ?, ?, ?, ?, ?)",
        tuple(attrs.asdict(family).values()),
    )
    query = (
        "select id from family where (content, shape, device, driver, compiler) = (?, ?, ?, ?, ?)"
    )
    return connection.execute(query, family.key).fetchone()[0]


def _insert(connection: sqlite3.Connection, family: int, row: tuple[Any, ...]) -> int:
    """The number of changed rows: 1, or 0 if the database has a later outcome."""
    names = ("family", *_COLUMNS)
    changes = ", ".join(f"{c} = excluded.{c}" for c in _COLUMNS[2:])
    return connection.execute(
        f"insert into outcome ({', '.join(names)}) values ({', '.join('?' * len(names))}) "
        f"on conflict do update set {changes} where excluded.written > written",
        (family, *row),
    ).rowcount


def _row(outcome: CandidateOutcome) -> tuple[Any, ...]:
    row = {
        **attrs.asdict(outcome), "point": outcome.name,
        "status": outcome.status.value, "samples": json.dumps(outcome.samples),
        "choices": json.dumps(dict(outcome.point)), "written": datetime.now(UTC).isoformat(),
    }  # fmt: skip
    return tuple(row[c] for c in _COLUMNS)


def _outcome(row: tuple[Any, ...]) -> CandidateOutcome:
    fields = dict(zip(_COLUMNS, row, strict=True))
    try:
        point = json.loads(fields.pop("choices"))
        samples = tuple(json.loads(fields["samples"]))
        fields |= {"status": Status(fields["status"]), "samples": samples}
        if not isinstance(point, dict) or not all(type(s) in (int, float) for s in samples):
            raise ValueError("choices are named and samples are numbers")
    except (RecursionError, TypeError, ValueError) as error:
        raise tune_error(f"a row that is none of ours: {error}", "TIR1103") from None
    del fields["written"]
    columns: dict[str, Any] = {**fields, "point": point}
    return CandidateOutcome(**columns)


__all__ = ["VERSION", "Database", "Family", "TuneError"]
