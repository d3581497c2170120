"""Diffs of texts in which values without names have other numbers: a pass that removes one op
renumbers every unnamed value after it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_NUMBER = re.compile(r"%(\d+)\b(?![\w.$-])")
_DEFINITION = re.compile(r"\s*(?:@\S+ )?(?:[%_][\w.$-]*, )*[%_][\w.$-]* = ")


def renumber(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of `new` with its unnamed values numbered as in `old` where a line that defines
    them stands in both, numbers aside; the others have numbers that `old` does not use."""
    tables = _aligned_numbers(old, new)
    return [
        _NUMBER.sub(lambda match, table=table: f"%{table[match[1]]}", line)
        for line, table in zip(new, tables, strict=True)
    ]


def _aligned_numbers(old: Sequence[str], new: Sequence[str]) -> list[dict[str, str]]:
    """For each line of `new`, the numbers of its function after `renumber`."""
    before, after = list(_by_function(old)), list(_by_function(new))
    masked = [[_NUMBER.sub("%", line) for line in lines] for lines in (old, new)]
    tables: dict[int, dict[str, str]] = {}
    for i, j, count in SequenceMatcher(None, *masked, autojunk=False).get_matching_blocks():
        for (_, left), (function, right) in zip(
            before[i : i + count], after[j : j + count], strict=True
        ):
            table = tables.setdefault(function, {})
            for old_number, number in zip(
                _numbers_of_definition(left), _numbers_of_definition(right), strict=True
            ):
                if old_number not in table.values():
                    table[number] = old_number
    used = {int(number) for line in (*old, *new) for number in _NUMBER.findall(line)}
    for function, line in after:
        table = tables.setdefault(function, {})
        for number in _NUMBER.findall(line):
            if number not in table:
                table[number] = str(max(used, default=-1) + 1)
                used.add(int(table[number]))
    return [tables[function] for function, _ in after]


def _by_function(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each line with the number of its function."""
    function = 0
    for line in lines:
        function += line.startswith(("define ", "declare "))
        yield function, line


def _numbers_of_definition(line: str) -> list[str]:
    """The numbers of the values that a line defines."""
    head = _DEFINITION.match(line)
    return [] if head is None else _NUMBER.findall(head[0])
