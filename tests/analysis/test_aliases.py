"""Which writes may change what a read finds: by what they are and what parameters promise."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir import textual
from tileir.analysis.aliases import aliases

TEXT = """tir 1.0

declare void @elsewhere(f32* %p)

define kernel void @k(f32*{a} %a, f32*{b} %b, f32*{c} %c, i64 %address) {{
entry:
  %far = inttoptr f32* %address
  %x = load f32 %a
  {op}
  ret
}}
"""

CHANGES = {
    "store %a, 1.0": True,
    "store %b, 1.0": True,
    "store %far, 1.0": True,
    "%y = load f32 %b": False,
    "%y = fadd f32 %x, 1.0": False,
    "%y = atomic_rmw f32 %b, 1.0 {op = fadd}": True,
    "barrier": False,
    "barrier\n  store %a, 1.0": True,
    "barrier\n  store %b, 1.0": True,
    "call @elsewhere, %b": True,
}
"""Ops, and whether they may change what `%a` holds where nothing is promised."""


def may_change(line: str, a: str = "", b: str = "", c: str = "") -> bool:
    function = textual.parse(TEXT.format(op=line, a=a, b=b, c=c)).kernel()
    _, load, writer, *_ = function.ops
    return aliases(function).may_change(writer, load)


@for_each(("line", "changes"), CHANGES.items())
def test_what_changes_memory_without_promises(line: str, changes: bool) -> None:
    assert may_change(line) == changes


@pytest.mark.parametrize("promised", ["a", "b"])
def test_parameters_of_which_one_is_noalias_are_disjoint(promised: str) -> None:
    promises = {promised: " noalias"}
    assert not may_change("store %b, 1.0", **promises)
    assert may_change("store %a, 1.0", **promises)
    assert may_change("store %b, 1.0", c=" noalias")


@for_each("line", CHANGES)
def test_what_nothing_writes_keeps_its_contents(line: str) -> None:
    """Memory of a kernel's parameter that no written one reaches, barriers or not."""
    reached = "%far" in line or "@elsewhere" in line or "%a" in line
    assert may_change(line, a=" noalias") == reached


def test_what_reads_an_unknown_address_may_be_changed_by_any_write() -> None:
    text = TEXT.format(op="%y = load f32 %far\n  store %a, 1.0", a=" noalias", b="", c="")
    function = textual.parse(text).kernel()
    _, _, load, store, _ = function.ops
    assert aliases(function).may_change(store, load)


@for_each(
    ("sem", "scope", "outside"),
    [
        ("acquire", "sys", True),
        ("acq_rel", "sys", True),
        ("release", "sys", False),
        ("relaxed", "sys", False),
        ("acquire", "gpu", False),
        ("acq_rel", "cta", False),
    ],
)
def test_an_acquire_of_the_system_shows_writes_of_others(
    sem: str, scope: str, outside: bool
) -> None:
    """Of the host or another kernel, to memory that no write of this one reaches, unless it is
    promised to be `readonly`."""
    order = f"{{op = fadd, sem = {sem}, scope = {scope}}}"
    line = f"barrier\n  %y = atomic_rmw f32 %b, 1.0 {order}"
    assert may_change(line, a=" noalias") == outside
    assert not may_change(line, a=" readonly noalias")
    assert may_change(line)
