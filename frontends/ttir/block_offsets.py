"""Offsets of blocks, `index * BLOCK + arange(BLOCK)`: sums that do not wrap.

TTIR's integers have no sign, and its sums no promise. Triton's axis analysis takes a contiguous
dividend for one that does not wrap and is not negative: `x % 64` then is contiguous in 64 elements.
With the promise that such sums do not wrap, ranges prove it. Sums that are not contiguous, as those
of hashes, are promised nothing.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any, TypeAlias

from tileir.frontends.ttir.nodes import Region, Section, Statement

Definitions: TypeAlias = ChainMap[str, Any]
"""By name the statement that defines it; of the index of a loop, its `scf.for`."""

_COUNTS = frozenset({"tt.get_program_id", "tt.get_num_programs"})
_RESHAPES = frozenset({"tt.expand_dims", "tt.broadcast"})
_SAME_INDEX = frozenset({"tt.expand_dims", "tt.broadcast", "tt.splat", "arith.extsi"})
_SUMS = frozenset({"arith.addi", "arith.muli"})
_QUOTIENTS = frozenset({"arith.divsi", "arith.remsi"})


def promise_block_offsets(region: Region, around: Definitions | None = None) -> None:
    """Mark as `exact` the sums and products that make offsets of blocks in `region`."""
    for section in region.sections:
        _visit(section, ChainMap({}) if around is None else around.new_child())


def _visit(section: Section, known: Definitions) -> None:
    for s in section.statements:
        if len(s.operands) == 2:
            if s.name == "arith.addi":
                _visit_sum(s, known)
            if s.name in _QUOTIENTS:
                _visit_dividend(s.operands[0], known)
        for inner in s.regions:
            looped = s.name == "scf.for" and len(s.operands) > 3
            promise_block_offsets(inner, known.new_child({s.operands[0]: s} if looped else {}))
        known.update({name: s for name, _ in s.results})


def _visit_sum(s: Statement, known: Definitions) -> None:
    """Mark a sum of a block's first index, in all of a tile, and the range of the block."""
    for first, second in (s.operands, s.operands[::-1]):
        extent = _extent(known.get(second), known)
        tiled = _through(known.get(first), known)
        if extent and tiled is not None and tiled.name == "tt.splat":
            s.exact = s.exact or _starts_block(tiled.operands[0], extent, known)


def _starts_block(name: str, extent: int, known: Definitions) -> bool:
    """Whether `name` is an index times a block of `extent`, or runs through blocks in a loop."""
    s = known.get(name)
    if s is None:
        return False
    if s.name == "scf.for":
        return _counts_up(s, known) and _holds(_constant(known.get(s.operands[3])), extent)
    if s.name != "arith.muli":
        return False
    for factor, block in (s.operands, s.operands[::-1]):
        if _holds(_constant(known.get(block)), extent):
            s.exact = True
            _promise(factor, known)
            return True
    return False


def _holds(block: int | None, extent: int) -> bool:
    return block is not None and block > 0 and block % extent == 0


def _visit_dividend(name: str, known: Definitions) -> None:
    """Mark the sums of a contiguous dividend: a range and indices that are not negative."""
    if _is_contiguous(known.get(name), known):
        _promise(name, known)


def _is_contiguous(s: Statement | None, known: Definitions) -> bool:
    s = _through(s, known)
    if s is None or s.name != "arith.addi":
        return _extent(s, known) > 0
    return any(_is_contiguous(known.get(name), known) for name in s.operands)


def _promise(name: str, known: Definitions) -> None:
    """Mark the sums and products that make an index which is not negative."""
    sums: dict[str, Statement] = {}
    if _is_index(name, known, sums):
        for s in sums.values():
            s.exact = True


def _is_index(name: str, known: Definitions, sums: dict[str, Statement]) -> bool:
    """Whether a value is made of ranges, indices of loops, ids of program instances and positive
    literals alone, and so not negative if none of `sums` wraps."""
    s = known.get(name)
    if s is None:
        return False
    if s.name in _COUNTS:
        return True
    if s.name == "scf.for":
        return _counts_up(s, known)
    if s.name == "tt.make_range":
        return s.integer("start") >= 0
    if s.name == "arith.constant":
        number = _constant(s)
        return number is not None and number >= 0
    if name in sums:
        return True
    if s.name in _SUMS:
        sums[name] = s
    elif s.name not in _QUOTIENTS and s.name not in _SAME_INDEX:
        return False
    return all(_is_index(operand, known, sums) for operand in s.operands)


def _counts_up(loop: Statement, known: Definitions) -> bool:
    """Whether the index of a loop is not negative, as it begins and steps with literals."""
    low, step = (_constant(known.get(loop.operands[i])) for i in (1, 3))
    return low is not None and low >= 0 and step is not None and step > 0


def _through(s: Statement | None, known: Definitions) -> Statement | None:
    """What a tile was before it got more dimensions."""
    while s is not None and s.name in _RESHAPES and s.operands:
        s = known.get(s.operands[0])
    return s


def _extent(s: Statement | None, known: Definitions) -> int:
    """The extent of a range from 0 on; 0 of anything else."""
    s = _through(s, known)
    if s is None or s.name != "tt.make_range" or s.options.get("start") != 0:
        return 0
    end = s.options.get("end")
    return end if isinstance(end, int) else 0


def _constant(s: Statement | None) -> int | None:
    """The integer that a statement is."""
    if s is None or s.name != "arith.constant":
        return None
    numbers = [t.text for t in s.head if t.kind == "number"]
    return int(numbers[0]) if len(numbers) == 1 and numbers[0].lstrip("-").isdigit() else None
