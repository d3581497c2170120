"""Host expressions: scalars that the host computes from a kernel's parameters before the launch.

Python numbers represent values of the IR: signed integers, 0 or 1 for an i1, addresses for
pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from tileir.analysis import memoize
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, Scalar, Type
from tileir.values import Value

Operand: TypeAlias = int | str
"""A number, or the name of one: `a3` is the argument with index 3, `v7` the result of step 7."""


@attrs.frozen
class HostOp:
    """A step of the host: a scalar op. It has the op's mnemonic, the bits of its result and of its
    first operand (64 for a pointer), a word that selects a variant (rounding, relation), and the
    size of the pointee in bytes."""

    mnemonic: str
    operands: tuple[Operand, ...]
    bits: int
    source: int
    word: str = ""
    size: int = 1

    @staticmethod
    def of(op: Any, operands: tuple[Operand, ...], result: int) -> HostOp:
        """The step that computes result number `result` of `op`."""
        word = getattr(getattr(op, "predicate_", getattr(op, "rounding", None)), "value", "")
        if op.mnemonic == "icmp" and result:
            word = f"not {word}"
        kind = op.inputs[0].type
        size = kind.pointee.bytes if op.mnemonic == "getelementptr" else 1
        return HostOp(
            op.mnemonic, operands, _bits(op.results[result].type), _bits(kind), word, size
        )

    @property
    def text(self) -> str:
        """The Python expression of the step."""
        return FORMULAS[self.mnemonic](self, *map(str, self.operands))


@memoize
def host_values(function: Function) -> frozenset[Value]:
    """The scalars of the entry block, integers and pointers, that follow from parameters alone."""
    values = {p.value for p in function.parameters if _scalar(p.type)}
    for op in function.entry.ops:
        if _computable(op) and all(v in values for v in op.operands if isinstance(v, Value)):
            values.update(op.results)
    return frozenset(values)


def _computable(op: Op) -> bool:
    """Whether the host can compute `op`, and whether it is safe to compute it even if its results
    are not needed."""
    return (
        op.mnemonic in FORMULAS
        and op.predicate is None
        and op.effects is Effects.PURE
        and all(_scalar(v.type) for v in (*op.inputs, *op.results))
    )


def _scalar(kind: Type) -> bool:
    return isinstance(kind, Pointer) or (isinstance(kind, Scalar) and kind.is_integer)


def _bits(kind: Any) -> int:
    return 64 if isinstance(kind, Pointer) else kind.bits


# Python expressions ------------------------------------------------------------------------------


def _wrap(step: HostOp, text: str) -> str:
    """The expression of the number `text` modulo 2^n, as a signed integer."""
    if step.bits == 1:
        return f"({text}) & 1"
    half = 1 << (step.bits - 1)
    return f"(({text} + {half}) & {2 * half - 1}) - {half}"


def _arithmetic(sign: str) -> Callable[..., str]:
    return lambda step, a, b: _wrap(step, f"{a} {sign} {b}")


def bitwise(sign: str) -> Callable[..., str]:
    """The text of a bitwise op, in the syntax that Python and C share."""
    return lambda step, a, b: f"{a} {sign} {b}"


def _as_unsigned(bits: int, text: str) -> str:
    return f"({text} & {(1 << bits) - 1})"


def _division(step: HostOp, a: str, b: str) -> str:
    match step.word:
        case "floor":
            return _wrap(step, f"{a} // {b}")
        case "ceil":
            return _wrap(step, f"-(-{a} // {b})")
        case _:
            return _wrap(step, f"({a} // {b} if ({a} < 0) == ({b} < 0) else -(-{a} // {b}))")


def comparison(
    step: HostOp, a: str, b: str, as_unsigned: Callable[[int, str], str]
) -> tuple[str, bool]:
    """The test that `step` makes, in the syntax that Python and C share, and whether its negation
    is the result. `as_unsigned` writes the unsigned value of a number of some bits."""
    word = step.word.removeprefix("not ")
    if word[0] == "u":
        a, b = as_unsigned(step.source, a), as_unsigned(step.source, b)
    return f"{a} {_RELATIONS[word[-2:]]} {b}", word != step.word


def _comparison(step: HostOp, a: str, b: str) -> str:
    test, is_negated = comparison(step, a, b, _as_unsigned)
    return f"int(not {test})" if is_negated else f"int({test})"


_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

FORMULAS: Mapping[str, Callable[..., str]] = {
    "add": _arithmetic("+"), "sub": _arithmetic("-"), "mul": _arithmetic("*"),
    "and": bitwise("&"), "or": bitwise("|"), "xor": bitwise("^"),
    "smin": lambda step, a, b: f"min({a}, {b})", "smax": lambda step, a, b: f"max({a}, {b})",
    "sdiv": _division, "icmp": _comparison, "neg": lambda step, a: _wrap(step, f"-{a}"),
    "getelementptr": lambda step, p, index: f"{p} + {index} * {step.size}",
    "sext": lambda step, a: f"-{a}" if step.source == 1 else a,
    "zext": lambda step, a: _as_unsigned(step.source, a),
    "trunc": lambda step, a: _wrap(step, a),
    "select": lambda step, c, a, b: f"({a} if {c} else {b})",
}  # fmt: skip
"""The Python expression of each op that the host can compute, by mnemonic."""
