"""The compiler that built each kernel, and the reason."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

COMPILED_BY, REASON = "compiled_by", "tileir_reason"
"""Keys in a kernel's metadata: the compiler (`tileir VERSION` or `triton`), and the reason if it
was Triton."""


class KernelRecord(NamedTuple):
    """A kernel that was built: its name, the compiler (`tileir` or `triton`), why it was not tileir
    ('' where it was), warps of a block, milliseconds that tileir took, whether the kernel came from
    Triton's cache, and Triton's key of it."""

    kernel: str
    compiler: str
    reason: str = ""
    num_warps: int = 0
    milliseconds: float = 0.0
    cached: bool = False
    key: str = ""

    def row(self) -> tuple[str, ...]:
        """The columns of the table."""
        took = "cached" if self.cached else f"{self.milliseconds:.0f} ms"
        reason = " ".join(self.reason.split())
        return (self.kernel, self.compiler, str(self.num_warps), took, reason)


_HEAD = ("kernel", "compiler", "warps", "tileir took", "reason")


class KernelReport:
    """The kernels built in this process, in order: `records`. As a text, a table."""

    def __init__(self, records: tuple[KernelRecord, ...]) -> None:
        self.records = records

    def __iter__(self) -> Iterator[KernelRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def of(self, kernel: str) -> tuple[KernelRecord, ...]:
        """The records of the kernels of that name."""
        return tuple(r for r in self.records if r.kernel == kernel)

    def __str__(self) -> str:
        ours = sum(r.compiler == "tileir" for r in self.records)
        rows = [_HEAD, *(r.row() for r in self.records)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD) - 1)]
        lines = [
            "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
            for row in rows
        ]
        return "\n".join([f"kernels: {len(self.records)}, by tileir: {ours}", *lines])


_records: list[KernelRecord] = []
_lock = threading.Lock()


def report() -> KernelReport:
    """The kernels built in this process since it began, or since `forget`."""
    with _lock:
        return KernelReport(tuple(_records))


def forget() -> None:
    """Begin a new report."""
    with _lock:
        _records.clear()


def note(record: KernelRecord) -> None:
    """Add a kernel to the report, and to the file that TILEIR_IN_TRITON_REPORT names."""
    with _lock:
        if record.cached and any(r.key == record.key for r in _records):
            return
        _records.append(record)
    path = _file()
    if path:
        with suppress(OSError), open(path, "a") as file:
            file.write("\t".join(record.row()) + "\n")


def compiled_by(kernel: Any) -> KernelRecord | None:
    """The compiler that built a `CompiledKernel` of Triton; None if it was built while the hook was
    not installed."""
    metadata = kernel.metadata
    compiler = str(getattr(metadata, COMPILED_BY, ""))
    if not compiler:
        return None
    reason = str(getattr(metadata, REASON, ""))
    return KernelRecord(
        metadata.name, compiler.split()[0], reason, metadata.num_warps, cached=True,
        key=str(metadata.hash),
    )  # fmt: skip


def show_at_exit() -> None:
    """The table on the standard error, unless the report goes to a file."""
    if not _file():
        sys.stderr.write(f"{report()}\n")


def _file() -> str:
    """The file of the report: TILEIR_IN_TRITON_REPORT, unless it is a word for on or off."""
    setting = os.environ.get("TILEIR_IN_TRITON_REPORT", "")
    return "" if setting.lower() in ("", "0", "1", "on", "off", "true", "false") else setting
