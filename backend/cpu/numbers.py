"""Arithmetic of the thread interface for the lanes of a CPU's vectors.

Operations on 16-bit floats are computed in f32 and rounded. For add, mul, div and sqrt the second
rounding does not change the result.
"""

from __future__ import annotations

from tileir.backend.cpu.integers import Integers
from tileir.backend.cpu.lane_values import (
    AffineValue,
    Lanes,
    VectorValue,
    scalar_type,
    vector_type,
)
from tileir.backend.cpu.vector_registers import registers
from tileir.backend.nvptx.text import intrinsic_suffix
from tileir.types import BF16, F16, F32, F64, I1, I16, I32, I64, Element

_SMALL = (F16, BF16)


class ArithmeticOps(Integers):
    """Arithmetic, comparisons, selections and conversions."""

    def binary(self, name: str, element: Element, a: Lanes, b: Lanes, flags: str = "") -> Lanes:
        if name[0] == "f":
            flags = ""  # with the interpreter's results
        if element in _SMALL and name[0] == "f":
            wide = [self.convert("fpext", element, F32, x) for x in (a, b)]
            return self.convert(
                "fptrunc", F32, element, self.binary(name, F32, wide[0], wide[1], flags)
            )
        linear = self.linear(name, element, a, b, flags)
        if linear is not None:
            return linear
        word = f"{name} {flags}" if flags else name
        return self.apply(word, element, a, b)

    def apply(self, word: str, element: Element, a: Lanes, b: Lanes) -> Lanes:
        """The result of an instruction on two operands of one type."""
        if isinstance(a, str) and isinstance(b, str):
            return self.emit(f"{word} {scalar_type(element)} {a}, {b}")
        x, y = self.wide(element, a), self.wide(element, b)
        return VectorValue(self.emit(f"{word} {vector_type(element)} {x}, {y}"))

    def intrinsic(self, name: str, element: Element, *operands: Lanes, flags: str = "") -> Lanes:
        if element in _SMALL:
            return self._small_intrinsic(name, element, *operands)
        extra = ", i1 false" if name in ("abs", "ctlz", "cttz") else ""
        single = all(isinstance(x, str) for x in operands)
        kind = scalar_type(element) if single else vector_type(element)
        suffix = intrinsic_suffix(element) if single else f"v32{intrinsic_suffix(element)}"
        inputs = [x if single else self.wide(element, x) for x in operands]
        types = ", ".join([kind] * len(operands)) + (", i1" if extra else "")
        self.declare(f"declare {kind} @llvm.{name}.{suffix}({types})")
        arguments = ", ".join(f"{kind} {x}" for x in inputs) + extra
        word = f"call {flags} " if flags else "call "
        result = self.emit(f"{word}{kind} @llvm.{name}.{suffix}({arguments})")
        return result if single else VectorValue(result)

    def scale_by_power(self, element: Element, a: Lanes, power: Lanes) -> Lanes | None:
        """`a` times 2 to `power`, by `vscalef` of AVX-512; None without AVX-512, where LLVM would
        emit a call per lane."""
        if registers().bytes < 64:
            return None
        x, by = self.wide(element, a), self.wide(I32, power)
        kind, count = vector_type(element), vector_type(I32)
        name = f"@llvm.ldexp.v32{intrinsic_suffix(element)}.v32i32"
        self.declare(f"declare {kind} {name}({kind}, {count})")
        return VectorValue(self.emit(f"call {kind} {name}({kind} {x}, {count} {by})"))

    def _small_intrinsic(self, name: str, element: Element, *operands: Lanes) -> Lanes:
        if name == "fabs":
            return self.binary("and", I16, operands[0], "32767")
        if name == "copysign":
            size = self.binary("and", I16, operands[0], "32767")
            return self.binary("or", I16, size, self.binary("and", I16, operands[1], "-32768"))
        if name == "fma":
            wide = [self.convert("fpext", element, F64, x) for x in operands]
            return self.convert("fptrunc", F64, element, self._odd_fma(*wide))
        wide = [self.convert("fpext", element, F32, x) for x in operands]
        result = self.intrinsic(name, F32, *wide)
        if name in ("minimumnum", "maximumnum"):
            result = self._number_of(wide[0], wide[1], result)
        return self.convert("fptrunc", F32, element, result)

    def _number_of(self, a: Lanes, b: Lanes, extreme: Lanes) -> Lanes:
        """`extreme`, or the number among `a` and `b` if the other is NaN. LLVM narrows the
        intrinsic to 16 bits, and would return a signalling NaN there."""
        first = self.compare("uno", F32, a, a)
        second = self.compare("uno", F32, b, b)
        return self.select(F32, first, b, self.select(F32, second, a, extreme))

    def _odd_fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        """`a * b + c` of f64, where `a * b` is exact, rounded to odd, so that a second rounding is
        correct (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums")."""
        product = self.binary("fmul", F64, a, b)
        total = self.binary("fadd", F64, product, c)
        part = self.binary("fsub", F64, total, product)
        error = self.binary(
            "fadd", F64,
            self.binary("fsub", F64, product, self.binary("fsub", F64, total, part)),
            self.binary("fsub", F64, c, part),
        )  # fmt: skip
        bits = self.convert("bitcast", F64, I64, total)
        even = self.compare("eq", I64, self.binary("and", I64, bits, "1"), "0")
        inexact = self.conjunction(even, self.compare("one", F64, error, "0.0"))
        away = self.compare("sgt", I64, self.binary("xor", I64, bits, self.convert(
            "bitcast", F64, I64, error)), "-1")  # fmt: skip
        step = self.select(I64, away, "1", "-1")
        assert inexact is not None
        moved = self.select(I64, inexact, self.binary("add", I64, bits, step), bits)
        return self.convert("bitcast", I64, F64, moved)

    def negate(self, element: Element, a: Lanes) -> Lanes:
        if element in _SMALL:
            return self.binary("xor", I16, a, "-32768")
        if isinstance(a, str):
            return self.emit(f"fneg {scalar_type(element)} {a}")
        return VectorValue(self.emit(f"fneg {vector_type(element)} {self.wide(element, a)}"))

    def compare(self, predicate: str, element: Element, a: Lanes, b: Lanes) -> Lanes:
        if element in _SMALL:
            a, b = (self.convert("fpext", element, F32, x) for x in (a, b))
            return self.compare(predicate, F32, a, b)
        constant = self.fold_comparison(predicate, element, a, b)
        if constant is not None:
            return constant
        word = "fcmp" if element.is_float else "icmp"
        return self.apply(f"{word} {predicate}", element, a, b)

    def select(self, element: Element, condition: Lanes, a: Lanes, b: Lanes) -> Lanes:
        if a is b or a == b or condition == "true":
            return a
        if condition == "false":
            return b
        if isinstance(condition, str) and isinstance(a, str) and isinstance(b, str):
            kind = scalar_type(element)
            return self.emit(f"select i1 {condition}, {kind} {a}, {kind} {b}")
        kind, x, y = vector_type(element), self.wide(element, a), self.wide(element, b)
        condition_word = f"i1 {condition}" if isinstance(condition, str) else (
            f"{vector_type(I1)} {self.wide(I1, condition)}")  # fmt: skip
        return VectorValue(self.emit(f"select {condition_word}, {kind} {x}, {kind} {y}"))

    # Conversions --------------------------------------------------------------------------------

    def convert(self, name: str, source: Element, target: Element, a: Lanes) -> Lanes:
        if source is target and name in ("fpext", "fptrunc", "bitcast"):
            return a
        if name == "fpext" and source in _SMALL:
            return self._from_small(source, target, a)
        if target in _SMALL and name in ("fptrunc", "sitofp", "uitofp"):
            return self._to_small(name, source, target, a)
        if isinstance(a, AffineValue):
            moved = self.linear_cast(name, source, target, a)
            if moved is not None:
                return moved
        if name.endswith(".sat"):
            return self._saturate(name, source, target, a)
        if scalar_type(source) == scalar_type(target):
            return a
        return self.cast(name, scalar_type(source), scalar_type(target), source, a)

    def cast(self, word: str, old: str, new: str, source: Element, a: Lanes) -> Lanes:
        """The result of LLVM's cast instruction `word` between types of one lane."""
        if isinstance(a, str):
            return self.emit(f"{word} {old} {a} to {new}")
        return VectorValue(self.emit(f"{word} <32 x {old}> {self.wide(source, a)} to <32 x {new}>"))

    def _saturate(self, name: str, source: Element, target: Element, a: Lanes) -> Lanes:
        single = isinstance(a, str)
        old, new = (scalar_type(t) if single else vector_type(t) for t in (source, target))
        lanes = "" if single else "v32"
        function = (
            f"@llvm.{name}.{lanes}{intrinsic_suffix(target)}.{lanes}{intrinsic_suffix(source)}"
        )
        self.declare(f"declare {new} {function}({old})")
        if isinstance(a, str):
            return self.emit(f"call {new} {function}({old} {a})")
        return VectorValue(self.emit(f"call {new} {function}({old} {self.wide(source, a)})"))

    def _from_small(self, source: Element, target: Element, a: Lanes) -> Lanes:
        if source is F16:
            half = self.cast("bitcast", "i16", "half", source, a)
            wide = self.cast("fpext", "half", "float", source, half)
        else:
            long = self.cast("zext", "i16", "i32", source, a)
            wide = self.convert("bitcast", I32, F32, self.binary("shl", I32, long, "16"))
        return wide if target is F32 else self.convert("fpext", F32, target, wide)

    def _to_small(self, name: str, source: Element, target: Element, a: Lanes) -> Lanes:
        if name != "fptrunc":
            a, source = self._to_f64(name, source, a), F64
        if source is F64:
            a = self._odd(a)
        if target is F16:
            half = self.cast("fptrunc", "float", "half", F32, a)
            return self.cast("bitcast", "half", "i16", target, half)
        bits = self.convert("bitcast", F32, I32, a)
        even = self.binary("and", I32, self.binary("lshr", I32, bits, "16"), "1")
        near = self.binary("add", I32, bits, self.binary("add", I32, even, "32767"))
        quiet = self.binary("or", I32, bits, str(0x400000))
        with_quiet_nans = self.select(I32, self.compare("uno", F32, a, a), quiet, near)
        high = self.binary("lshr", I32, with_quiet_nans, "16")
        return self.cast("trunc", "i32", "i16", I32, high)

    def _to_f64(self, name: str, source: Element, a: Lanes) -> Lanes:
        """An integer as an f64. An integer of more than 53 bits is rounded to odd."""
        if source.bits <= 32:
            return self.convert(name, source, F64, a)
        low = self.compare("ne", I64, self.binary("and", I64, a, "2047"), "0")
        sticky = self.convert("zext", I1, I64, low)
        cut = self.binary("or", I64, self.binary("and", I64, a, "-2048"),
                          self.binary("shl", I64, sticky, "11"))  # fmt: skip
        top = self.binary("lshr", I64, a, "53")
        if name == "sitofp":
            top = self.binary("lshr", I64, self.binary("xor", I64, a, self.binary(
                "ashr", I64, a, "63")), "53")  # fmt: skip
        short = self.compare("eq", I64, top, "0")
        return self.convert(name, I64, F64, self.select(I64, short, a, cut))

    def _odd(self, a: Lanes) -> Lanes:
        """An f64 as an f32 rounded to odd, so that a second rounding is correct."""
        near = self.cast("fptrunc", "double", "float", F64, a)
        back = self.cast("fpext", "float", "double", F32, near)
        bits = self.convert("bitcast", F32, I32, near)
        large, exact = (self.intrinsic("fabs", F64, x) for x in (back, a))
        over = self.compare("ogt", F64, large, exact)
        down = self.select(I32, over, self.binary("sub", I32, bits, "1"), bits)
        infinite = self.compare("oeq", F64, exact, "0x7FF0000000000000")
        same = self.compare("ueq", F64, back, a)
        odd = self.binary("or", I32, down, "1")
        keep = self.select(I1, same, "true", infinite)
        return self.convert("bitcast", I32, F32, self.select(I32, keep, bits, odd))

    def round_tf32(self, a: Lanes) -> Lanes:
        bits = self.convert("bitcast", F32, I32, a)
        near = self.binary("and", I32, self.binary("add", I32, bits, "4096"), "-8192")
        special = self.compare("eq", I32, self.binary("and", I32, bits, str(0x7F800000)),
                               str(0x7F800000))  # fmt: skip
        return self.convert("bitcast", I32, F32, self.select(I32, special, bits, near))
