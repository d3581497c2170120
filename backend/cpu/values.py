"""Values of all lanes: construction of vectors, and extraction of single lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileir.backend.cpu.lane_values import (
    WIDTH,
    AffineValue,
    Lanes,
    VectorValue,
    constant,
    constant_vector,
    is_literal,
    number,
    scalar_type,
    vector_type,
)
from tileir.backend.nvptx.text import Body
from tileir.types import I1, I32, Element, Pointer

EVERYWHERE = "splat (i1 true)"


class Values(Body):
    """A function body whose values are those of all lanes."""

    def __init__(self, prefix: str = "t", scope: str = "") -> None:
        super().__init__(prefix, scope)
        self.active: Lanes | None = None
        """The lanes that run, None for all."""
        self.entry_faults: dict[str, str] = {}
        """What has been computed where the function begins."""

    def constant(self, element: Element, bits: int) -> str:
        return constant(element, bits)

    def integer(self, number: int) -> str:
        return constant(I32, number & 0xFFFFFFFF)

    def wide(self, element: Element, x: Lanes) -> str:
        """`x` as an LLVM vector operand."""
        if isinstance(x, VectorValue):
            return x.text
        if isinstance(x, AffineValue):
            return self._spread(element, x)
        if is_literal(x):
            return f"splat ({scalar_type(element)} {x})"
        kind = vector_type(element)
        one = self.emit(f"insertelement {kind} poison, {scalar_type(element)} {x}, i64 0")
        return self.emit(
            f"shufflevector {kind} {one}, {kind} poison, <{WIDTH} x i32> zeroinitializer"
        )

    def _spread(self, element: Element, x: AffineValue) -> str:
        if x.condition:
            assert x.slow is not None
            return x.slow()
        kind, steps = scalar_type(element), [x.step * lane for lane in range(WIDTH)]
        if isinstance(element, Pointer):
            offsets = constant_vector("i64", steps)
            return self.emit(f"getelementptr i8, {kind} {x.base}, <{WIDTH} x i64> {offsets}")
        first = number(x.base)
        if first is not None:
            return constant_vector(kind, [_wrap(first + s, element.bits) for s in steps])
        spread = constant_vector(kind, [_wrap(s, element.bits) for s in steps])
        return self.emit(f"add {vector_type(element)} {self.wide(element, x.base)}, {spread}")

    def lane_of(self, element: Element, x: Lanes, lane: str) -> str:
        """The value of lane `lane`, an i32 operand."""
        if isinstance(x, str):
            return x
        return self.emit(
            f"extractelement {vector_type(element)} {self.wide(element, x)}, i32 {lane}"
        )

    def shared_by_all(self, element: Element, x: Lanes) -> str:
        """The value of `x`, broadcast to all lanes."""
        return self.lane_of(element, x, "0")

    # Masks --------------------------------------------------------------------------------------

    def conjunction(self, a: Lanes | None, b: Lanes | None) -> Lanes | None:
        """The lanes that are in both `a` and `b`. None and `true` stand for all lanes."""
        if a is None or a == "true":
            return b
        if b is None or b == "true":
            return a
        if isinstance(a, str) and isinstance(b, str):
            return self.emit(f"and i1 {a}, {b}")
        if (
            isinstance(a, VectorValue)
            and isinstance(b, VectorValue)
            and a.ones
            and b.ones is not None
        ):
            return lane_mask(a.ones & b.ones)
        kind = vector_type(I1)
        return VectorValue(self.emit(f"and {kind} {self.wide(I1, a)}, {self.wide(I1, b)}"))

    def active_under(self, mask: Lanes | None) -> Lanes | None:
        """The active lanes that are in `mask`; None for all lanes."""
        condition = self.conjunction(self.active, mask)
        return None if condition == "true" else condition

    def mask(self, condition: Lanes | None) -> str:
        """`condition` as a vector of i1."""
        return EVERYWHERE if condition is None else self.wide(I1, condition)

    def any_of(self, condition: Lanes) -> str:
        """Whether `condition` is true in any lane."""
        if isinstance(condition, str):
            return condition
        name = f"@llvm.vector.reduce.or.v{WIDTH}i1"
        self.declare(f"declare i1 {name}({vector_type(I1)})")
        return self.emit(f"call i1 {name}({vector_type(I1)} {self.wide(I1, condition)})")

    # Control flow -------------------------------------------------------------------------------

    def either(
        self,
        condition: str,
        kinds: Sequence[str],
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]],
    ) -> list[str]:
        """Values of LLVM types `kinds`, computed by one of two branches."""
        ways = [self.fresh_label("then"), self.fresh_label("else")]
        after = self.fresh_label("after")
        self.line(f"br i1 {condition}, label %{ways[0]}, label %{ways[1]}")
        incoming: list[tuple[Sequence[str], str]] = []
        for label, body in zip(ways, (then, otherwise), strict=True):
            self.start(label)
            incoming.append((body(), self.label))
            self.line(f"br label %{after}")
        self.start(after)
        (left, one), (right, other) = incoming
        return [
            self.emit(f"phi {kind} [ {a}, %{one} ], [ {b}, %{other} ]")
            for kind, a, b in zip(kinds, left, right, strict=True)
        ]


def lane_mask(ones: frozenset[int]) -> VectorValue:
    """The constant mask of lanes `ones`."""
    return VectorValue(constant_vector("i1", [int(lane in ones) for lane in range(WIDTH)]), ones)


def _wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half
