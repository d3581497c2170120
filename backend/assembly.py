"""Checks of foreign code before LLVM reads it: constraints and text of inline assembly, and names
of external functions. For code that LLVM parses but NVPTX does not support, LLVM ends the process.

LLVM Language Reference Manual, "Inline Assembler Expressions"; NVPTX's registers by constraint are
those of `NVPTXTargetLowering::getRegForInlineAsmConstraint`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tileir.backend.nvptx.text import kernel_name
from tileir.errors import CompileError, Diagnostic
from tileir.op import Op
from tileir.types import Scalar, element_of
from tileir.values import Constant

WIDTHS = {"b": 1, "c": 16, "h": 16, "r": 32, "f": 32, "l": 64, "N": 64, "d": 64}
"""Bits of the register of each constraint."""

_FLOATS = {"f": 32, "d": 64}
"""Constraints of float registers, by number of bits."""

_IMMEDIATE = ("n", "i")
"""Constraints of operands that are written into the text as numbers."""

_CLOBBER = re.compile(r"~\{\w+\}")
_REFERENCE = re.compile(r"\$(?:\$|(\d+)|\{(\d+)\}|\{:uid\}|(.?))", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SYMBOL = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+")
_RESERVED = re.compile(r"llvm\..*|__nvvm_.*|[gk]x?\d*\$.*|WARP_SZ|shared|vprintf|__assertfail")


def check_outside(ops: Iterable[Op], kernels: Iterable[str] = ()) -> None:
    """Raise `CompileError` (TIR0719) at the first of `ops` whose foreign code LLVM does not accept,
    in a module with `kernels`."""
    declared: dict[str, tuple[Any, ...]] = {kernel_name(name): () for name in kernels}
    for op in ops:
        if op.mnemonic == "inline_asm":
            fault = next(_faults(op), None)
        elif op.mnemonic == "extern_elementwise":
            fault = _symbol_fault(op, declared)
        else:
            continue
        if fault is not None:
            raise CompileError(Diagnostic("TIR0719", f"{op.mnemonic}: {fault}", op.location))


def words_of(element: Any, pack: int) -> tuple[int, int]:
    """The number of registers that `pack` elements take, and the bits of each. Elements of fewer
    than 32 bits share 32-bit registers."""
    together = max(1, min(pack, 4 // element.bytes))
    return pack // together, element.bits if together == 1 else 32


def _faults(op: Any) -> Iterator[str]:
    results = [_Word.of(r.type, op.pack) for r in op.results]
    operands = [_Word.of(v.type, op.pack) for v in op.values]
    outputs = [word for words in results for word in words]
    inputs = [word for words in operands for word in words]
    texts = [text.strip() for text in op.constraints.split(",")] if op.constraints else []
    plain = [text for text in texts if not text.startswith("~")]
    for text in texts:
        if text.startswith("~") and not _CLOBBER.fullmatch(text):
            yield f"the clobber {text!r} is written ~{{name}}"
    if len(plain) != len(outputs) + len(inputs):
        yield (
            f"{len(outputs)} results and {len(inputs)} operands need as many constraints, and "
            f"there are {len(plain)}: {op.constraints!r}"
        )
        return
    for text, word in zip(plain, outputs, strict=False):
        if not re.fullmatch(r"=&?[A-Za-z]", text):
            yield f"the constraint of a result is = and a letter, as =r, not {text!r}"
        yield from _letter_faults(text[-1:], word)
    values = [v for v, words in zip(op.values, operands, strict=True) for _ in words]
    for text, word, value in zip(plain[len(outputs) :], inputs, values, strict=True):
        if text in _IMMEDIATE:
            yield from _immediate_faults(text, word, value)
        else:
            yield from _input_faults(text, word, outputs)
    yield from _text_faults(op.text, len(plain))


class _Word:
    """One register of an operand: its number of bits, and whether it contains a float."""

    def __init__(self, bits: int, is_float: bool) -> None:
        self.bits, self.is_float = bits, is_float

    @staticmethod
    def of(kind: Any, pack: int) -> list[_Word]:
        element = element_of(kind)
        count, bits = words_of(element, pack)
        single = isinstance(element, Scalar) and element.is_float and bits == element.bits
        return [_Word(bits, single and bits >= 16)] * count


def _input_faults(text: str, word: _Word, outputs: list[_Word]) -> Iterator[str]:
    if text.isascii() and text.isdigit():
        number = int(text[:4])
        if number >= len(outputs):
            yield f"the constraint {text} is that of a result, and there are {len(outputs)}"
        elif outputs[number].bits != word.bits:
            yield f"the constraint {text} ties {word.bits} bits to {outputs[number].bits}"
    elif not re.fullmatch(r"[A-Za-z]", text):
        yield f"the constraint of an operand is a letter or the number of a result, not {text!r}"
    else:
        yield from _letter_faults(text, word)


def _immediate_faults(text: str, word: _Word, value: Any) -> Iterator[str]:
    element = element_of(value.type)
    is_whole = isinstance(element, Scalar) and not element.is_float and element.bits == word.bits
    if not isinstance(value, Constant) or not is_whole:
        yield f"an operand {text!r} is a constant integer of a whole register"


def _letter_faults(letter: str, word: _Word) -> Iterator[str]:
    width = WIDTHS.get(letter)
    if width is None:
        letters = ", ".join(f"{k} ({bits} bits)" for k, bits in WIDTHS.items())
        yield f"NVPTX has no registers {letter!r}; there are {letters}"
    elif width < word.bits or (letter == "b" and word.bits != 1):
        yield f"{word.bits} bits do not fit a register {letter!r} of {width}"
    elif letter in _FLOATS and word.is_float and word.bits != _FLOATS[letter]:
        yield f"a float of {word.bits} bits does not fit a register {letter!r} of {width}"


def _text_faults(text: str, count: int) -> Iterator[str]:
    odd = next((c for c in text if not (" " <= c < "\x7f" or c in "\n\r\t")), None)
    if odd is not None:
        yield f"PTX is ASCII text, and has no {odd!r}"
    for match in _REFERENCE.finditer(text):
        number = match[1] or match[2]
        if match[3] is not None:
            yield f"{match[0]!r}: $ comes before the number of an operand, as $0 or ${{0}}, or $"
        elif number is not None and int(number[:6]) >= count:
            yield f"{match[0]} names no operand: there are {count}"
    depth = 0
    for mark in re.findall(r"[{}]", re.sub(r"\$\{[^}]*\}", "", _COMMENT.sub("", text))):
        depth += 1 if mark == "{" else -1
        if depth < 0:
            break
    if depth:
        yield "the braces of the text are not balanced"


def _symbol_fault(op: Any, declared: dict[str, tuple[Any, ...]]) -> str | None:
    from tileir.backend.codegen.rules.math import (
        libdevice,  # a slow import, needed only for this op
    )

    if libdevice(op) is not None:
        return None
    if not _SYMBOL.fullmatch(op.symbol) or _RESERVED.fullmatch(op.symbol):
        return f"{op.symbol!r} is no name that a function of a library can have"
    kinds = tuple(element_of(v.type) for v in (*op.results, *op.inputs))
    if declared.setdefault(op.symbol, kinds) != kinds:
        reason = "called with other types" if declared[op.symbol] else "the name of a kernel"
        return f"{op.symbol} is {reason}"
    return None
