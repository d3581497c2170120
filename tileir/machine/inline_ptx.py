"""Inline assembly: straight-line PTX that computes, on numpy arrays of register bits.

`assemble` reads the text and its constraints as LLVM does (LLVM Language Reference, "Inline
Assembler Expressions"). Registers, vectors, predicates and literals are those of the PTX ISA.
Memory, branches and special registers have no meaning here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from tileir.machine.ptx_instructions import (
    Instruction,
    PtxOperand,
    UnknownPtxError,
    bits_of,
    instruction,
)
from tileir.machine.tensor import RAW, Array, from_raw, raw

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"\$\{?(?P<place>\d+)\}?|(?P<number>0[fFdD][0-9A-Fa-f]+|[-+]?(?:0[xX][0-9A-Fa-f]+|\d+)U?(?![\w.])"
    r"|[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)|(?P<word>[A-Za-z_%.][\w.$%:]*)|(?P<mark>\S)"
)
_WIDTHS = {"b": 8, "c": 16, "h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
"""Bits of a register by its constraint; predicates have a byte."""

Place = Any
"""A register's name, a number, or a tuple of places: a vector."""


@attrs.frozen
class _Statement:
    """An instruction with its guard (`p`, `!p` or nothing), the place it writes, and those it
    reads."""

    apply: Instruction
    guard: str
    target: Place
    sources: tuple[Place, ...]


@attrs.frozen
class Assembly:
    """Inline assembly as read: bits of its results, names of its operands, bits of the registers
    that it declares, and its statements."""

    results: tuple[int, ...]
    operands: tuple[str, ...]
    declared: dict[str, int]
    statements: tuple[_Statement, ...]

    def run(self, operands: Sequence[Array], count: int) -> list[Array]:
        """The bits of the results for `count` executions, from the bits of the operands."""
        widths = {**self.declared, **{f"${i}": bits for i, bits in enumerate(self.results)}}
        state = {name: np.zeros(count, RAW[bits // 8]) for name, bits in widths.items()}
        state |= dict(zip(self.operands, operands, strict=True))
        with np.errstate(all="ignore"):
            for statement in self.statements:
                _execute(statement, state, count)
        return [state[f"${i}"] for i in range(len(self.results))]

    def elements(
        self, inputs: Sequence[Sequence[Array]], dtypes: Sequence[np.dtype[Any]], pack: int
    ) -> list[list[Array]]:
        """`pack` arrays of each result, of the types `dtypes`, from `pack` arrays of each operand,
        all of one dimension."""
        words = [word for parts in inputs for word in _words(parts)]
        count = len(words[0]) if words else 1
        bits = iter(self.run(words, count))
        return [_parts(bits, dtype, pack) for dtype in dtypes]


def _together(itemsize: int, pack: int) -> int:
    """The number of elements that share a register."""
    return max(1, min(pack, 4 // itemsize))


def _words(parts: Sequence[Array]) -> list[Array]:
    """The registers of `parts`: elements of fewer than 32 bits share one."""
    each = _together(parts[0].dtype.itemsize, len(parts))
    if each == 1:
        return [raw(np.ascontiguousarray(part)) for part in parts]
    groups = [np.stack(parts[i : i + each], -1) for i in range(0, len(parts), each)]
    wide = RAW[each * parts[0].dtype.itemsize]
    return [raw(group).view(wide)[:, 0].astype(np.uint32) for group in groups]


def _parts(words: Iterator[Array], dtype: np.dtype[Any], pack: int) -> list[Array]:
    """Inverse of `_words`."""
    each = _together(dtype.itemsize, pack)
    parts: list[Array] = []
    for _ in range(pack // each):
        narrow = next(words).astype(RAW[each * dtype.itemsize])[:, None].view(RAW[dtype.itemsize])
        parts += [_as_elements(narrow[:, i].copy(), dtype) for i in range(each)]
    return parts


def _as_elements(bits: Array, dtype: np.dtype[Any]) -> Array:
    return (bits & 1).astype(np.bool_) if dtype == np.bool_ else from_raw(bits, dtype)


def _execute(statement: _Statement, state: dict[str, Array], count: int) -> None:
    sources = [PtxOperand(_bits(place, state), count) for place in statement.sources]
    result = statement.apply.compute(sources)
    target = statement.target
    names = target if isinstance(target, tuple) else (target,)
    if len(names) > 1:
        size = result.nbytes // count // len(names)
        values = list(raw(result).view(RAW[size]).reshape(count, len(names)).T)
    else:
        values = [result if len(result) == count else raw(result).view(RAW[result.nbytes // count])]
    for name, value in zip(names, values, strict=True):
        old = state[name]
        signed = value.dtype.kind == "i" and value.dtype.itemsize < old.dtype.itemsize
        new = value.astype(f"i{old.dtype.itemsize}") if signed else raw(value)
        new = raw(new).astype(old.dtype)
        guard = statement.guard.removeprefix("!")
        if guard:
            runs = (state[guard] == 0) if statement.guard[0] == "!" else (state[guard] != 0)
            new = np.where(runs, new, old)
        state[name] = new


def _bits(place: Place, state: dict[str, Array]) -> Any:
    """The bits of a register or a vector, or the number itself."""
    if isinstance(place, tuple):
        parts = [state[name] for name in place]
        size = parts[0].dtype.itemsize * len(parts)
        return np.stack(parts, -1).view(RAW[size])[:, 0]
    return state[place] if isinstance(place, str) else place


# Reading ------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def assemble(text: str, constraints: str) -> Assembly:
    """Read inline assembly. Raises UnknownPtxError where it has no meaning on a CPU."""
    plain = [c for c in re.split(r"\s*,\s*", constraints.strip()) if c and "~" not in c]
    widths = [_WIDTHS.get(c[-1], 0) for c in plain if c.startswith("=")]
    results, operands = tuple(widths), tuple(f"${i}" for i in range(len(widths), len(plain)))
    copy, statements = instruction("mov.b64"), list[_Statement]()
    for name, constraint in zip(operands, plain[len(results) :], strict=True):
        if constraint.isdigit():  # the operand is in the register of that result
            statements.append(_Statement(copy, "", f"${constraint}", (name,)))
    declared: dict[str, int] = {}
    for words in _statements(text):
        if words[0] == ".reg":
            declared |= _registers_of(words[1:])
        else:
            statements.append(_statement(words))
    registers = {*declared, *operands, *(f"${i}" for i in range(len(results)))}
    for statement in statements:
        places = (statement.guard.removeprefix("!"), statement.target, *statement.sources)
        names = [n for p in places for n in (p if isinstance(p, tuple) else (p,)) if n != ""]
        for name in names:
            if isinstance(name, str) and name not in registers:
                raise UnknownPtxError(name)
    if 0 in results or not all(isinstance(s.target, str | tuple) for s in statements):
        raise UnknownPtxError(f"{text!r} with {constraints!r}")
    return Assembly(results, operands, declared, tuple(statements))


def _statements(text: str) -> Iterator[list[Any]]:
    """The tokens of each statement, without the braces around statements."""
    words: list[Any] = []
    for match in _TOKEN.finditer(_COMMENT.sub(" ", text)):
        if match["place"]:
            words.append(f"${match['place']}")
        elif match["number"]:
            words.append(_number(match["number"]))
        elif match[0] == ";":
            if words:
                yield words
            words = []
        elif words or match[0] not in "{}":
            words.append(match[0])
    if words:
        raise UnknownPtxError(f"{words[0]} without a semicolon")


def _number(text: str) -> int | float:
    prefix, digits = text[:2].lower(), text[2:]
    if prefix == "0f":
        return float(np.array(int(digits, 16), np.uint32).view(np.float32))
    if prefix == "0d":
        return float(np.array(int(digits, 16), np.uint64).view(np.float64))
    whole = text.removesuffix("U")
    return int(whole, 0) if re.fullmatch(r"[-+]?(0[xX][0-9A-Fa-f]+|\d+)", whole) else float(text)


def _registers_of(words: list[Any]) -> dict[str, int]:
    """Bits of the registers that `.reg` declares; `t<3>` are t0, t1 and t2."""
    bits = 8 if words[0] == ".pred" else bits_of(str(words[0])[1:])
    names: dict[str, int] = {}
    for i, name in enumerate(words[1:], start=2):
        if isinstance(name, str) and name not in ",<>":
            many = words[i : i + 1] == ["<"]
            copies = [f"{name}{n}" for n in range(words[i + 1])] if many else [name]
            names |= dict.fromkeys(copies, bits)
    return names


def _statement(words: list[Any]) -> _Statement:
    guard = ""
    if words[0] == "@":
        end = 3 if words[1] == "!" else 2
        guard, words = "".join(words[1:end]), words[end:]
    apply = instruction(str(words[0]))
    target, *sources = _places(words[1:]) or [""]
    if len(sources) != apply.reads:
        raise UnknownPtxError(f"{words[0]} of {len(sources)} operands")
    return _Statement(apply, guard, target, tuple(sources))


def _places(words: list[Any]) -> list[Place]:
    """The operands of an instruction."""
    places: list[Any] = []
    vector: list[Any] | None = None
    for word in words:
        if word == "{":
            vector = []
        elif word == "}" and vector is not None:
            places.append(tuple(vector))
            vector = None
        elif word != ",":
            (places if vector is None else vector).append(word)
    return places
