"""Formulas in ordinary notation over the values of one thread.

A `Term` is a handle with its thread and element type; operators emit instructions of the thread
interface. Numbers take the type of the term they are combined with. Order comparisons are ordered
for floats and signed for integers, `>>` is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tileir.types import F32, F64, I1, I32, I64, Element
from tileir.values import encode

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

_WHOLE: dict[Element, Element] = {F32: I32, F64: I64}
_REAL: dict[Element, Element] = {I32: F32, I64: F64}
_SIGN: dict[Element, int] = {F32: 0x80000000, F64: 1 << 63}


@attrs.frozen(eq=False)
class Term:
    """One value of one thread."""

    thread: Thread
    element: Element
    handle: Handle

    def like(self, value: Number) -> Term:
        """`value` as a term of this type."""
        if isinstance(value, Term):
            return value
        bits = _bits_of(self.element, value)
        return Term(self.thread, self.element, self.thread.constant(self.element, bits))

    def _binary(self, name: str, left: Number, right: Number) -> Term:
        word = ("f" if self.element.is_float else "") + name
        a, b = self.like(left).handle, self.like(right).handle
        return self.as_term(self.thread.binary(word, self.element, a, b))

    def as_term(self, handle: Handle) -> Term:
        """`handle`, of this type."""
        return Term(self.thread, self.element, handle)

    def __add__(self, other: Number) -> Term:
        return self._binary("add", self, other)

    def __radd__(self, other: Number) -> Term:
        return self._binary("add", other, self)

    def __sub__(self, other: Number) -> Term:
        return self._binary("sub", self, other)

    def __rsub__(self, other: Number) -> Term:
        return self._binary("sub", other, self)

    def __mul__(self, other: Number) -> Term:
        return self._binary("mul", self, other)

    def __rmul__(self, other: Number) -> Term:
        return self._binary("mul", other, self)

    def __truediv__(self, other: Number) -> Term:
        return self._binary("div", self, other)

    def __rtruediv__(self, other: Number) -> Term:
        return self._binary("div", other, self)

    def __neg__(self) -> Term:
        if self.element.is_float:
            return self.as_term(self.thread.negate(self.element, self.handle))
        return self._binary("sub", 0, self)

    def __abs__(self) -> Term:
        return self.call("fabs" if self.element.is_float else "abs")

    def __and__(self, other: Number) -> Term:
        return self._binary("and", self, other)

    def __or__(self, other: Number) -> Term:
        return self._binary("or", self, other)

    def __xor__(self, other: Number) -> Term:
        return self._binary("xor", self, other)

    def __invert__(self) -> Term:
        return self._binary("xor", self, -1)

    def __lshift__(self, other: Number) -> Term:
        return self._binary("shl", self, other)

    def __rshift__(self, other: Number) -> Term:
        return self._binary("ashr", self, other)

    def unsigned_shift(self, other: Number) -> Term:
        """Shift right; zeros are shifted in."""
        return self._binary("lshr", self, other)

    def compare(self, predicate: str, other: Number) -> Term:
        """An i1: `icmp` or `fcmp` with `predicate`."""
        handle = self.thread.compare(predicate, self.element, self.handle, self.like(other).handle)
        return Term(self.thread, I1, handle)

    def _compare_ordered(self, predicate: str, other: Number) -> Term:
        return self.compare(("o" if self.element.is_float else "s") + predicate, other)

    def __lt__(self, other: Number) -> Term:
        return self._compare_ordered("lt", other)

    def __le__(self, other: Number) -> Term:
        return self._compare_ordered("le", other)

    def __gt__(self, other: Number) -> Term:
        return self._compare_ordered("gt", other)

    def __ge__(self, other: Number) -> Term:
        return self._compare_ordered("ge", other)

    def same(self, other: Number) -> Term:
        """Whether the values are equal; false for NaN."""
        return self.compare("oeq" if self.element.is_float else "eq", other)

    def call(self, name: str, *operands: Number) -> Term:
        """The result of intrinsic `name` on this term and `operands`."""
        handles = [self.like(x).handle for x in operands]
        return self.as_term(self.thread.intrinsic(name, self.element, self.handle, *handles))

    def ptx(self, name: str, *operands: Number) -> Term:
        """The result, of this type, of PTX instruction `name` on this term and `operands`."""
        typed = [(self.element, x.handle) for x in (self, *map(self.like, operands))]
        names = ", ".join(f"${i}" for i in range(len(typed) + 1))
        return self.as_term(self.thread.instruction(f"{name} {names};", self.element, typed))

    def scale_by_power(self, power: Term) -> Term | None:
        """This term times 2 to the power of an i32, rounded once; None if no single instruction
        computes that."""
        handle = self.thread.scale_by_power(self.element, self.handle, power.handle)
        return None if handle is None else self.as_term(handle)

    def bits(self) -> Term:
        """The representation of a float, as an integer."""
        return self.cast("bitcast", _WHOLE[self.element])

    def real(self) -> Term:
        """The float whose representation this integer is."""
        return self.cast("bitcast", _REAL[self.element])

    def cast(self, name: str, element: Element) -> Term:
        """The result of cast instruction `name` to `element`."""
        handle = self.thread.convert(name, self.element, element, self.handle)
        return Term(self.thread, element, handle)

    def to_integer(self) -> Term:
        """An integer-valued float as a signed integer of its size."""
        return self.cast("fptosi", _WHOLE[self.element])

    def floating(self) -> Term:
        """A signed integer as a float of its size."""
        return self.cast("sitofp", _REAL[self.element])


Number: TypeAlias = Term | float | int
Function: TypeAlias = Callable[..., Term]
"""Maps terms to a term, for one element type."""


def _bits_of(element: Element, value: float | int) -> int:
    if element.is_float:
        return encode(element, float(value))  # type: ignore[arg-type]
    return int(value) & ((1 << element.bits) - 1)


def where(condition: Term, a: Number, b: Number) -> Term:
    """`a` where `condition` is true, else `b`. At least one of them is a term."""
    one = a if isinstance(a, Term) else b
    assert isinstance(one, Term)
    left, right = one.like(a).handle, one.like(b).handle
    return one.as_term(one.thread.select(one.element, condition.handle, left, right))


def fma(a: Term, b: Number, c: Number) -> Term:
    """`a * b + c`, rounded once."""
    return a.call("fma", b, c)


def horner(x: Term, coefficients: Sequence[float], start: Term | None = None) -> Term:
    """The value at `x` of the polynomial with `coefficients`, in ascending order from the constant.
    `start`, if not None, is the coefficient above them."""
    total = x.like(coefficients[-1]) if start is None else fma(start, x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = fma(total, x, c)
    return total


def nan(x: Term) -> Term:
    """Whether `x` is NaN."""
    return x.compare("uno", x)


def is_usual(x: Term) -> Term:
    """Whether `x` is positive and finite: one comparison of its bits. Of two comparisons of the
    number LLVM makes a test of its class, which NVPTX expands to more instructions."""
    return (x.bits() - 1).compare("ult", x.like(float("inf")).bits() - 1)


def copysign(x: Term, sign: Term) -> Term:
    """Magnitude of `x`, sign of `sign`."""
    return x.call("copysign", sign)


def clamp(x: Term, low: float, high: float) -> Term:
    """`x` clamped between numbers; a NaN becomes `low`."""
    return x.call("maximumnum", low).call("minimumnum", high)


def sign_bit(x: Term) -> Term:
    """Whether the sign bit is set, of zeros too."""
    return x.bits() < 0


def flip_sign(x: Term, condition: Term) -> Term:
    """`x` negated where `condition`."""
    mask = where(condition, x.bits().like(_SIGN[x.element]), 0)
    return (x.bits() ^ mask).real()


def branch(
    condition: Term, results: Sequence[Element], body: Callable[[], Sequence[Term]],
    otherwise: Sequence[Term] = (),
) -> list[Term]:  # fmt: skip
    """The results of `body` where `condition` is true, elsewhere `otherwise` or zeros. The branch
    may be divergent."""
    thread, defaults = condition.thread, [x.handle for x in otherwise]
    handles = thread.when(condition.handle, results, lambda: [x.handle for x in body()], defaults)
    return [Term(thread, e, h) for e, h in zip(results, handles, strict=True)]


def repeat(count: int, initial: Term, step: Callable[[Term], Term]) -> Term:
    """The result of `step` applied `count` times to `initial`, in a loop."""
    thread, element = initial.thread, initial.element

    def body(_: Handle, carried: list[Handle]) -> list[Handle]:
        return [step(initial.as_term(carried[0])).handle]

    (handle,) = thread.loop(count, (element,), (initial.handle,), body)
    return initial.as_term(handle)


_INTEGERS = 6755399441055744.0
"""1.5 2^52. Numbers near it are integers, and their representations are consecutive."""
_INTEGERS_BITS = 0x4338000000000000
_INTEGERS32, _INTEGERS32_BITS = 12582912.0, 0x4B400000
"""1.5 2^23, for f32."""


def nearest_integer(x: Term, scale: float = 1.0) -> tuple[Term, Term]:
    """The integer nearest to `x` times `scale`, as a float and as an i32. It is below 2^31 in
    magnitude, in f32 below 2^22. It uses additions: on a GPU, a conversion takes 16 times as long,
    in f32 8 times."""
    start = _INTEGERS if x.element is F64 else _INTEGERS32
    shifted = x + start if scale == 1.0 else fma(x, scale, start)
    bits = shifted.bits()
    integer = bits.cast("trunc", I32) if x.element is F64 else bits - _INTEGERS32_BITS
    return shifted - start, integer


def small_floating(n: Term) -> Term:
    """An i64 below 2^51 in magnitude as an f64, without a conversion."""
    return (n + _INTEGERS_BITS).real() - _INTEGERS


def power_of_two(n: Term, element: Element = F32) -> Term:
    """2^n by its exponent bits, for i32 integers n whose power is a normal number of `element`."""
    if element is F32:
        return ((n + 127) << 23).real()
    return ((n + 1023).cast("zext", I64) << 52).real()


def ldexp(x: Term, n: Term) -> Term:
    """`x` times 2^n, for i32 n up to twice the largest exponent in magnitude. It takes two
    multiplications where one does not suffice, so that subnormal results are rounded once and large
    results do not overflow prematurely."""
    at_once = x.scale_by_power(n)
    if at_once is not None:
        return at_once
    half = n >> 1
    return x * power_of_two(half, x.element) * power_of_two(n - half, x.element)


def quotient(a: Term, b: Term) -> Term:
    """a / b within 1 ulp, for normal b with a normal reciprocal and for normal results. Other
    operands are divided by the correctly rounded division."""
    if not b.thread.approximates:
        return a / b
    inverse = reciprocal(b)
    near = a * inverse
    return fma(fma(-near, b, a), inverse, near)


def reciprocal(x: Term) -> Term:
    """1 / x within 1 ulp for normal x with a normal reciprocal. `rcp.approx.ftz.f32` has this
    accuracy. `rcp.approx.ftz.f64` has 20 bits (PTX ISA, "rcp.approx.ftz.f64"), which a step of
    third order increases to 53."""
    if x.element is F32:
        return x.ptx("rcp.approx.ftz.f32")
    if not x.thread.approximates:
        return 1.0 / x
    start = x.ptx("rcp.approx.ftz.f64")
    error = fma(-x, start, 1.0)
    return fma(start, fma(error, error, error), start)


def near_inverse_root(x: Term) -> Term:
    """1 / sqrt(x) of a positive normal f64 within 1 ulp, with approximate instructions.
    `rsqrt.approx.ftz.f64` has about 20 bits, which a step of third order increases to 53."""
    start = x.ptx("rsqrt.approx.ftz.f64")
    error = fma(-(x * start), start, 1.0)
    return fma(start * error, fma(error, 0.375, 0.5), start)
