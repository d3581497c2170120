"""Matrix instructions of a warp, `mma.sync`: their shapes, and the elements of each lane.

Fragments are those of PTX ISA, "Matrix Fragments for mma.m16n8k8 ... m16n8k32" and "m8n8k4 with
.f64". With `e` elements to a 32-bit word, lane 4 g + t owns rows g and g + 8 of A at columns e t
... e t + e - 1 and the same 4 e further on, the transposed elements of B, and rows g and g + 8 of C
at columns 2 t and 2 t + 1.
"""

from __future__ import annotations

import attrs

from tileir.layout import Layout, Vector
from tileir.types import BF16, F16, F32, F64, I8, I32, Element, Scalar

Vectors = tuple[Vector, ...]


@attrs.frozen
class MmaInstruction:
    """One instruction: C [m, n] += A [m, k] B [k, n].

    `operand` is the element type of the fragments of A and B, `accumulator` that of C; `kind` is
    PTX's name of the operand type.
    """

    m: int
    n: int
    k: int
    operand: Scalar
    accumulator: Scalar
    kind: str

    @property
    def per_word(self) -> int:
        """Operand elements in one register of the instruction: 32 bits, or one f64."""
        return max(1, 32 // self.operand.bits)

    @property
    def name(self) -> str:
        """`m16n8k16` and the like."""
        return f"m{self.m}n{self.n}k{self.k}"

    def a(self) -> tuple[Vectors, Vectors]:
        """Vectors (m, k) of register bits and lane bits of A."""
        return _operand(self, self.m, swap=False)

    def b(self) -> tuple[Vectors, Vectors]:
        """Vectors (k, n) of register bits and lane bits of B."""
        return _operand(self, self.n, swap=True)

    def c(self) -> tuple[Vectors, Vectors]:
        """Vectors (m, n) of register bits and lane bits of C."""
        rows: Vectors = ((8, 0),) if self.m == 16 else ()
        return ((0, 1), *rows), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))


def _operand(mma: MmaInstruction, outer: int, *, swap: bool) -> tuple[Vectors, Vectors]:
    word = mma.per_word
    registers = [(0, 1 << i) for i in range(word.bit_length() - 1)]
    registers += [(8, 0)] * (outer == 16) + [(0, 4 * word)] * (mma.k == 8 * word)
    lanes = [(0, word), (0, 2 * word), (1, 0), (2, 0), (4, 0)]
    if swap:
        return tuple((k, n) for n, k in registers), tuple((k, n) for n, k in lanes)
    return tuple(registers), tuple(lanes)


_F16 = MmaInstruction(16, 8, 16, F16, F32, "f16")
_BF16 = MmaInstruction(16, 8, 16, BF16, F32, "bf16")
_TF32 = MmaInstruction(16, 8, 8, F32, F32, "tf32")
_S8 = MmaInstruction(16, 8, 32, I8, I32, "s8")
_F64 = MmaInstruction(8, 8, 4, F64, F64, "f64")


def is_fragment_of_result(layout: Layout) -> bool:
    """Whether warps own results of 16-bit or 32-bit matrix instructions: pairs of columns."""
    register, lane = _F16.c()
    return layout.lane == lane and layout.register[:1] == register[:1]


def instruction(operand: Element, precision: str) -> MmaInstruction | None:
    """The instruction for operands of a type; None where the dot takes multiply-adds.

    8-bit floats are multiplied as f16, which represents them exactly: their own instruction
    accumulates with fewer bits than f32 has.
    """
    if operand is F32:
        return {"tf32": _TF32, "tf32x3": _TF32, "bf16x3": _BF16, "bf16x6": _BF16}.get(precision)
    small = {F16: _F16, BF16: _BF16, I8: _S8, F64: _F64}
    if isinstance(operand, Scalar) and operand.is_float and operand.bits == 8:
        return _F16
    return small.get(operand) if isinstance(operand, Scalar) else None
