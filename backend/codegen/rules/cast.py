"""Conversions. Those to and from 8-bit floats are computed through f16, f32 and their bits, so that
every target yields the same result. The instructions of sm_89 and later yield it as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tileir.analysis.uses import definitions
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise
from tileir.backend.codegen.rules.f8_f4 import (
    by_instruction,
    narrow,
    narrow_four,
    widen,
    widen_four_e5m2,
    widen_some,
)
from tileir.ops.arith import Add, Sub
from tileir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, I1, I8, I16, I32, Element, Scalar
from tileir.values import Constant, Operand, Value, decode, encode

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

_PLAIN = ("trunc", "zext", "ptrtoint", "inttoptr", "addrspacecast")


def _plain(t: Thread, op: Any, x: Handle) -> Handle:
    return t.convert(op.mnemonic, _source(op), _target(op), x)


def _sign_extend(lowering: Lowering, op: Any) -> list[Fragment]:
    """Remainders and quotients that are known to be nonnegative are zero-extended. LLVM then knows
    their sign, and multiplying a 32-bit index takes fewer instructions."""
    source, target, name = _source(op), _target(op), op.mnemonic
    if source is I32 and _is_of_division(lowering, op.inputs[0]):
        from tileir.analysis.ranges import ranges_of  # few kernels need it

        if ranges_of(lowering.function, op.inputs[0]).of(op.inputs[0])[0] >= 0:
            name = "zext"
    return elementwise(lambda t, _, x: t.convert(name, source, target, x))(lowering, op)


def _is_of_division(lowering: Lowering, operand: Operand) -> bool:
    """Whether `operand` is computed by arithmetic from a quotient or remainder."""
    defined, pending, seen = definitions(lowering.function), [operand], set[Operand]()
    while pending:
        value = pending.pop()
        op = defined.get(value) if isinstance(value, Value) and value not in seen else None
        seen.add(value)
        if op is not None and op.mnemonic in _DIVISIONS:
            return True
        if op is not None and op.elementwise:
            pending += op.inputs
    return False


_DIVISIONS = ("sdiv", "udiv", "srem", "urem")


def _from_integer(t: Thread, op: Any, x: Handle) -> Handle:
    from tileir.backend.codegen.rules.small_integers import BY_BITS, by_bits

    source, target, signed = _source(op), _target(op), op.mnemonic == "sitofp"
    if signed and source is I1:
        return _truth_to_float(t, target, x)
    if (source, target) in BY_BITS and t.slow_conversions:
        return by_bits(t, signed, source, target, x)
    return t.convert(op.mnemonic, source, target, x)


def _from_integers(lowering: Lowering, op: Any) -> list[Fragment]:
    """Convert four neighbours together if they are the bytes of one word."""
    t, source, target = lowering.thread, _source(op), _target(op)
    (values,) = (lowering.fragment(v) for v in op.inputs)
    signed = op.mnemonic == "sitofp"
    by_words = target in (F16, F32) or (
        target is BF16 and (lowering.target.bf16_arithmetic or not signed)
    )
    if not (t.slow_conversions and source is I8 and by_words) or len(values) % 4:
        return elementwise(_from_integer)(lowering, op)
    from tileir.backend.codegen.rules.small_integers import four_by_bits

    minuend = _nonnegative_minuend(lowering, op.inputs[0]) if signed else None
    more: dict[str, Any] = {"signed": signed}
    if minuend is not None:
        operand, less = minuend
        values, more = lowering.fragment(operand), {"has_sign": False, "less": less}
    return [_by_words(values, lambda four: four_by_bits(t, target, four, **more))]


def _nonnegative_minuend(lowering: Lowering, operand: Operand) -> tuple[Operand, int] | None:
    """A tile of numbers of no sign and a number that is subtracted from each, exactly, to make
    `operand`. The subtraction is then part of the conversion: 4-bit weights have an offset."""
    from tileir.analysis.ranges import ranges_of  # few kernels convert bytes

    definition = definitions(lowering.function).get(cast(Value, operand))
    bounds, minuend, less = ranges_of(lowering.function, operand), operand, 0
    if isinstance(definition, (Add, Sub)) and definition in bounds.exact:
        first, second = definition.inputs
        if isinstance(second, Constant):
            amount, _ = bounds.of(second)
            minuend, less = first, amount if isinstance(definition, Sub) else -amount
    low, _ = bounds.of(minuend)
    return (minuend, less) if low >= 0 and -128 <= less < 128 else None


def _by_words(values: Fragment, convert: Callable[[tuple[Handle, ...]], list[Handle]]) -> Fragment:
    """Convert `values` four at a time. The same four values are converted once."""
    results: Fragment = []
    converted: dict[tuple[Handle, ...], list[Handle]] = {}
    for start in range(0, len(values), 4):
        four = tuple(values[start : start + 4])
        if four not in converted:
            converted[four] = convert(four)
        results += converted[four]
    return results


def _truth_to_float(t: Thread, target: Element, x: Handle) -> Handle:
    """-1 where the bit is set. LLVM's NVPTX backend would convert it to 1 for bf16."""
    set_, clear = (t.constant(target, encode(target, v)) for v in (-1.0, 0.0))
    return t.select(target, x, set_, clear)


def _widen(t: Thread, op: Any, x: Handle) -> Handle:
    return t.convert("fpext", _source(op), _target(op), x)


def _narrow(t: Thread, op: Any, x: Handle) -> Handle:
    return float_to_float(t, _source(op), _target(op), x, op.rounding.value, op.saturate)


def _float_tile(lowering: Lowering, op: Any) -> list[Fragment]:
    """Convert neighbours together if the target has instructions that convert two."""
    t, source, target = lowering.thread, _source(op), _target(op)
    if source is F8E4M3 and t.f8_conversion and target.bits > 8:
        return _widened_tile(lowering, op)
    words = t.slow_conversions and len(lowering.fragment(op.inputs[0])) % 4 == 0
    if source is F8E5M2 and target.bits > 8 and words and not getattr(op, "saturate", False):
        return _widened_words(lowering, op)
    if op.mnemonic == "fpext":
        return elementwise(_widen)(lowering, op)
    if not by_instruction(t, target, op.rounding.value):
        return elementwise(_narrow)(lowering, op)
    return _narrowed_tile(lowering, op)


def _widened_tile(lowering: Lowering, op: Any) -> list[Fragment]:
    (values,) = (lowering.fragment(v) for v in op.inputs)
    return [widen_pairs(lowering.thread, _target(op), values)]


def _widened_words(lowering: Lowering, op: Any) -> list[Fragment]:
    """Widen four e5m2 at a time. All of them are exact in f16 and in wider types."""
    t, target, (values,) = lowering.thread, _target(op), [lowering.fragment(v) for v in op.inputs]

    def convert(four: tuple[Handle, ...]) -> list[Handle]:
        halves = widen_four_e5m2(t, four)
        return [float_to_float(t, F16, target, x, "rn", False) for x in halves]

    return [_by_words(values, convert)]


def widen_pairs(t: Thread, target: Element, values: Fragment) -> Fragment:
    """Widen two e4m3 per instruction. All of them are exact in f16 and in wider types."""
    results: list[Handle] = []
    widened: dict[tuple[Handle, ...], list[Handle]] = {}
    for start in range(0, len(values), 2):
        pair = tuple(values[start : start + 2])
        if pair not in widened:
            halves = widen_some(t, pair)
            widened[pair] = [float_to_float(t, F16, target, x, "rn", False) for x in halves]
        results += widened[pair]
    return results


def _narrowed_tile(lowering: Lowering, op: Any) -> list[Fragment]:
    """Narrow four numbers to one word, by instructions that convert two."""
    t, source, target = lowering.thread, _source(op), _target(op)
    assert isinstance(target, Scalar)
    (values,) = (lowering.fragment(v) for v in op.inputs)
    results: Fragment = []
    narrowed: dict[tuple[Handle, ...], list[Handle]] = {}
    for start in range(0, len(values) // 4 * 4, 4):
        four = tuple(values[start : start + 4])
        if four not in narrowed:
            narrowed[four] = narrow_four(t, source, target, four, op.saturate)
        results += narrowed[four]
    unconverted = values[len(results) :]
    return [results + [_narrow(t, op, x) for x in unconverted]]


def float_to_float(
    t: Thread, source: Element, target: Element, x: Handle, rounding: str, saturate: bool
) -> Handle:
    """`x` in format `target`, rounded once."""
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    if source.bits <= 8:
        x, source = widen(t, source, x), F32
    if target.bits <= 8:
        return narrow(t, source, target, x, rounding, saturate)
    if {source, target} == {F16, BF16}:
        x, source = t.convert("fpext", source, F32, x), F32
    if target.bits >= source.bits:
        wide = x if source is target else t.convert("fpext", source, target, x)
        return _saturate(t, target, target, wide) if saturate else wide
    if saturate:
        x = _saturate(t, source, target, x)
    if rounding == "rn":
        return t.convert("fptrunc", source, target, x)
    return _convert_directed(t, source, target, x, rounding)


def _saturate(t: Thread, source: Scalar, target: Scalar, x: Handle) -> Handle:
    """`x` clamped to the finite numbers of `target`; NaN stays."""
    exponent = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}[target.name]
    most = decode(target, ((1 << exponent[0]) - 1 << exponent[1]) - 1)
    high, low = (t.constant(source, encode(source, v)) for v in (float(most), -float(most)))
    above, below = (t.compare(p, source, x, v) for p, v in (("ogt", high), ("olt", low)))
    return t.select(source, above, high, t.select(source, below, low, x))


def _convert_directed(
    t: Thread, source: Scalar, target: Scalar, x: Handle, rounding: str
) -> Handle:
    """A directed rounding: PTX's `cvt` if it has the mode. Otherwise the number is rounded to
    nearest, and moved by one unit where the result is on the wrong side."""
    if (source is F64 and target is F32) or (target is F16 and rounding == "rz" and source is F32):
        text = f"cvt.{rounding}.{target.name}.{source.name} $0, $1;"
        return t.instruction(text, target, [(source, x)])
    near = t.convert("fptrunc", source, target, x)
    back = t.convert("fpext", target, source, near)
    return _correct_rounding(t, source, target, x, near, back, rounding)


def _correct_rounding(
    t: Thread, source: Scalar, target: Scalar, x: Handle, near: Handle, back: Handle, rounding: str
) -> Handle:  # fmt: skip
    """`near`, or its neighbour toward zero, down or up (by `rounding`) where `near` is on the wrong
    side of `x`; `back` is `near` in the type of `x`."""
    bits_type = I16 if target.bits == 16 else I32
    bits = t.convert("bitcast", target, bits_type, near)
    negative = t.compare("slt", bits_type, bits, t.constant(bits_type, 0))
    above, below = t.compare("ogt", source, back, x), t.compare("olt", source, back, x)
    down = t.select(I1, negative, below, above)
    over = {"rz": down, "rm": above, "rp": below}[rounding]
    grow = {"rz": t.constant(I1, 0), "rm": negative,
            "rp": t.binary("xor", I1, negative, t.constant(I1, 1))}[rounding]  # fmt: skip
    one = t.constant(bits_type, 1)
    zero = t.compare("oeq", source, back, t.constant(source, 0))
    smallest = t.binary("or", bits_type, t.constant(bits_type, 1), _sign_of(t, bits_type, rounding))
    larger, smaller = t.binary("add", bits_type, bits, one), t.binary("sub", bits_type, bits, one)
    moved = t.select(bits_type, grow, larger, smaller)
    moved = t.select(bits_type, zero, smallest, moved)
    return t.convert("bitcast", bits_type, target, t.select(bits_type, over, moved, bits))


def _sign_of(t: Thread, bits_type: Any, rounding: str) -> Handle:
    return t.constant(bits_type, 1 << (bits_type.bits - 1) if rounding == "rm" else 0)


def _to_integer(t: Thread, op: Any, x: Handle) -> Handle:
    source, target = _source(op), _target(op)
    if source in (F16, BF16):
        x, source = t.convert("fpext", source, F32, x), F32
    if target is I1:
        return _truth(t, op.mnemonic, source, x)
    if op.saturate:
        return t.convert(f"{op.mnemonic}.sat", source, target, x)
    if target.bits < 32:
        wide = t.convert(op.mnemonic, source, I32, x)
        return t.convert("trunc", I32, target, wide)
    return t.convert(op.mnemonic, source, target, x)


def _truth(t: Thread, name: str, source: Element, x: Handle) -> Handle:
    """The bit of a conversion to i1, whose true is 1 (unsigned) or -1 (signed)."""
    if name == "fptoui":
        return t.compare("oge", source, x, t.constant(source, encode(source, 1.0)))
    return t.compare("ole", source, x, t.constant(source, encode(source, -1.0)))


def _bitcast(t: Thread, op: Any, x: Handle) -> Handle:
    return t.convert("bitcast", _source(op), _target(op), x)


def _source(op: Any) -> Element:
    return scalar_of(op.inputs[0].type)


def _target(op: Any) -> Element:
    return scalar_of(op.result.type)


RULES: dict[str, Rule] = {
    **{name: elementwise(_plain) for name in _PLAIN},
    "sext": _sign_extend,
    "sitofp": _from_integers,
    "uitofp": _from_integers,
    **dict.fromkeys(("fpext", "fptrunc", "fpcast"), _float_tile),
    "fptosi": elementwise(_to_integer),
    "fptoui": elementwise(_to_integer),
    "bitcast": elementwise(_bitcast),
}
