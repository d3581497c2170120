"""Offsets of blocks, `index * BLOCK + arange(BLOCK)`: integer arithmetic that does not wrap.

TTIR's integers have no sign, and its additions no promise. Triton's axis analysis assumes that a
contiguous dividend does not wrap and is not negative: `x % 64` is then contiguous in 64 elements.
With the promise that such offsets do not wrap, the range analysis proves the same. Values that are
not contiguous, such as hashes, get no promise."""

from __future__ import annotations

from collections import ChainMap
from typing import Any, TypeAlias

from tileir.frontends.ttir.nodes import Operation, Region, Section

Definitions: TypeAlias = ChainMap[str, Any]
"""The defining statement of each name; for the index of a loop, its `scf.for`."""

_COUNTS = frozenset({"tt.get_program_id", "tt.get_num_programs"})
_RESHAPES = frozenset({"tt.expand_dims", "tt.broadcast"})
_SAME_INDEX = frozenset({"tt.expand_dims", "tt.broadcast", "tt.splat", "arith.extsi"})
_ARITHMETIC = frozenset({"arith.addi", "arith.muli"})
_QUOTIENTS = frozenset({"arith.divsi", "arith.remsi"})


def promise_block_offsets(region: Region, around: Definitions | None = None) -> None:
    """Mark as `exact` the arithmetic that makes offsets of blocks in `region`."""
    for section in region.sections:
        _visit(section, ChainMap({}) if around is None else around.new_child())


def _visit(section: Section, definitions: Definitions) -> None:
    for s in section.statements:
        if s.name == "arith.addi":
            _visit_addition(s, definitions)
        elif s.name in _QUOTIENTS and len(s.operands) == 2:
            _visit_dividend(s.operands[0], definitions)
        for inner in s.regions:
            is_loop = s.name == "scf.for" and len(s.operands) > 3
            promise_block_offsets(
                inner, definitions.new_child({s.operands[0]: s} if is_loop else {})
            )
        definitions.update({name: s for name, _ in s.results})


def _visit_addition(s: Operation, definitions: Definitions) -> None:
    """Mark the addition of a block's first index, in all of a tile, and the range of the block."""
    operands = s.operands
    if len(operands) != 2:
        return
    for first, second in (operands, operands[::-1]):
        splat = _through(definitions.get(first), definitions)
        if splat is not None and splat.name == "tt.splat":
            extent = _extent(definitions.get(second), definitions)
            if extent:
                s.exact = s.exact or _starts_block(splat.operands[0], extent, definitions)


def _starts_block(name: str, extent: int, definitions: Definitions) -> bool:
    """Whether `name` is an index times a block of `extent`, or runs through blocks in a loop."""
    s = definitions.get(name)
    if s is None:
        return False
    if s.name == "scf.for":
        return _counts_up(s, definitions) and _holds(
            _constant(definitions.get(s.operands[3])), extent
        )
    if s.name != "arith.muli":
        return False
    for index, block in (s.operands, s.operands[::-1]):
        if _holds(_constant(definitions.get(block)), extent):
            s.exact = True
            _promise(index, definitions)
            return True
    return False


def _holds(block: int | None, extent: int) -> bool:
    return block is not None and block > 0 and block % extent == 0


def _visit_dividend(name: str, definitions: Definitions) -> None:
    """Mark the arithmetic of a contiguous dividend: a range and indices that are not negative."""
    if _is_contiguous(definitions.get(name), definitions):
        _promise(name, definitions)


def _is_contiguous(s: Operation | None, definitions: Definitions) -> bool:
    s = _through(s, definitions)
    if s is None or s.name != "arith.addi":
        return _extent(s, definitions) > 0
    return any(_is_contiguous(definitions.get(name), definitions) for name in s.operands)


def _promise(name: str, definitions: Definitions) -> None:
    """Mark the arithmetic that makes an index which is not negative."""
    arithmetic: dict[str, Operation] = {}
    if _is_index(name, definitions, arithmetic):
        for s in arithmetic.values():
            s.exact = True


def _is_index(name: str, definitions: Definitions, arithmetic: dict[str, Operation]) -> bool:
    """Whether a value is made of ranges, indices of loops, ids of program instances and positive
    literals alone, and so not negative if none of `arithmetic` wraps."""
    s = definitions.get(name)
    if s is None:
        return False
    if s.name in _COUNTS:
        return True
    if s.name == "scf.for":
        return _counts_up(s, definitions)
    if s.name == "tt.make_range":
        return s.integer("start") >= 0
    if s.name == "arith.constant":
        number = _constant(s)
        return number is not None and number >= 0
    if name in arithmetic:
        return True
    if s.name in _ARITHMETIC:
        arithmetic[name] = s
    elif s.name not in _QUOTIENTS and s.name not in _SAME_INDEX:
        return False
    return all(_is_index(operand, definitions, arithmetic) for operand in s.operands)


def _counts_up(loop: Operation, definitions: Definitions) -> bool:
    """Whether the index of a loop is not negative, as it begins and steps with literals."""
    low, step = (_constant(definitions.get(loop.operands[i])) for i in (1, 3))
    return low is not None and low >= 0 and step is not None and step > 0


def _through(s: Operation | None, definitions: Definitions) -> Operation | None:
    """The tile before ops that add dimensions."""
    while s is not None and s.name in _RESHAPES and s.operands:
        s = definitions.get(s.operands[0])
    return s


def _extent(s: Operation | None, definitions: Definitions) -> int:
    """The extent of a range from 0 on; 0 of anything else."""
    s = _through(s, definitions)
    if s is None or s.name != "tt.make_range" or s.options.get("start") != 0:
        return 0
    end = s.options.get("end")
    return end if isinstance(end, int) else 0


def _constant(s: Operation | None) -> int | None:
    """The integer that a statement is."""
    if s is None or s.name != "arith.constant":
        return None
    numbers = [t.text for t in s.head if t.kind == "number"]
    return int(numbers[0]) if len(numbers) == 1 and numbers[0].lstrip("-").isdigit() else None
