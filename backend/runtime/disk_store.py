"""A folder of entries by key. Many processes may read and write it, and be killed while they do.

An entry is written to a temporary file and renamed, so that it is complete or absent. A checksum
detects files that a power failure has damaged; they count as absent. A key is locked while its
entry is computed; the lock ends with its process.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tileir.errors import CompileError, Diagnostic

_MAGIC = b"tileir-entry 1\n"
_DIGEST = 32
_STALE = 3600.0
"""Seconds after which an unfinished file is that of a process that was killed."""


@attrs.frozen
class DiskStore:
    """Entries in `folder`, which is created on the first write."""

    folder: Path

    def get(self, key: str) -> bytes | None:
        """The entry of `key`, a word of letters and digits; None if there is none, or if it is
        damaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        content = data[start:]
        if data[:start] != _MAGIC + hashlib.sha256(content).digest():
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, data: bytes) -> None:
        """Store `data` as the entry of `key`. Raises `CompileError` (TIR0717) if the folder is not
        writable."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".unfinished-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(data).digest() + data)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise _unusable(path, error) from error

    @contextmanager
    def lock(self, key: str) -> Generator[None, None, None]:
        """Lock `key` exclusively among all threads and processes. Raises `CompileError` (TIR0717)
        if the folder is not writable."""
        path = self._path(key).with_suffix(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = _acquire(path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)  # while it is locked: waiting processes then look up the path again
            os.close(handle)

    def keys(self) -> Iterator[str]:
        """The keys of all entries, in no particular order."""
        for path in self.folder.glob("??/*.entry"):
            yield path.parent.name + path.stem

    def trim(self, size: int) -> int:
        """Remove entries, the least recently used first, until the rest takes at most `size` bytes;
        also remove the temporary files of killed processes. Returns the number of removed bytes."""
        removed = sum(_unlink(p) for p in self.folder.glob("??/.unfinished-*") if _stale(p))
        files = [(s.st_mtime, s.st_size, p) for p in self.folder.glob("??/*.entry")
                 if (s := _stat(p))]  # fmt: skip
        total = sum(bytes_ for _, bytes_, _ in files)
        for _, bytes_, path in sorted(files):
            if total <= size:
                break
            total -= bytes_
            removed += _unlink(path)
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.entry"


def cache_folder() -> Path:
    """The user's cache folder: `TILEIR_CACHE`, or the system's folder for caches. Raises
    `CompileError` (TIR0717) if the system defines none, as in some containers."""
    stated = os.environ.get("TILEIR_CACHE")
    if stated:
        return Path(stated)
    if os.path.expanduser("~") == "~" and not os.environ.get("XDG_CACHE_HOME"):
        message = "no folder for the cache of this user is known: set TILEIR_CACHE to a folder"
        raise CompileError(Diagnostic("TIR0717", message))
    try:
        from platformdirs import user_cache_path  # pyright: ignore
    except ImportError:
        return _usual_folder()
    return user_cache_path("tileir", appauthor=False)


def _usual_folder() -> Path:
    """The folder by the XDG Base Directory Specification, or the one that macOS uses."""
    parts = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    stated = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(stated) if os.path.isabs(stated) else Path.home().joinpath(*parts)
    return folder / "tileir"


def _acquire(path: Path) -> int:
    """A locked handle of the file `path`. The owner of a lock unlinks the file at the end, so a
    lock on an unlinked file does not count."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_ino == os.stat(path).st_ino:
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _stale(path: Path) -> bool:
    status = _stat(path)
    return status is not None and time.time() - status.st_mtime > _STALE


def _unlink(path: Path) -> int:
    status = _stat(path)
    try:
        path.unlink()
    except OSError:
        return 0
    return status.st_size if status else 0


def _unusable(path: Path, error: OSError) -> CompileError:
    message = f"cannot write {path}: {error.strerror}; TILEIR_CACHE names another folder"
    return CompileError(Diagnostic("TIR0717", message))
