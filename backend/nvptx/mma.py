"""Matrix instructions and asynchronous copies of the thread interface, as inline assembly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileir.backend.nvptx.memory import LlvmMemory
from tileir.backend.nvptx.text import llvm_type
from tileir.types import F32, F64, I32, Element

if TYPE_CHECKING:
    from tileir.backend.layouts.mma import MmaInstruction

Handle = str


class LlvmMatrices(LlvmMemory):
    """`ldmatrix`, `stmatrix`, `mma.sync`, `cp.async` (PTX ISA); handles are LLVM operands."""

    def load_matrix(
        self, element: Element, count: int, transposed: bool, offset: Handle, constant: int
    ) -> list[Handle]:
        names = ", ".join(f"${i}" for i in range(count))
        modifier = ".trans" if transposed else ""
        text = (
            f"ldmatrix.sync.aligned.m8n8.x{count}{modifier}.shared.b16 "
            f"{{{names}}}, [${count} + {constant}];"
        )
        words = self._several(
            text,
            [I32] * count,
            [("r", "ptr addrspace(3)", self._shared_address(offset))],
            "sideeffect ",
            4,
        )
        return self._unpack(element, count * 4 // element.bytes, I32, words)

    def store_matrix(
        self, element: Element, transposed: bool, offset: Handle, constant: int,
        values: Sequence[Handle],
    ) -> None:  # fmt: skip
        words = self._pack(element, values, I32, len(values) * element.bytes // 4)
        names = ", ".join(f"${i + 1}" for i in range(len(words)))
        modifier = ".trans" if transposed else ""
        text = (
            f"stmatrix.sync.aligned.m8n8.x{len(words)}{modifier}.shared.b16 "
            f"[$0 + {constant}], {{{names}}};"
        )
        operands = "".join(f", i32 {x}" for x in words)
        classes = ",".join(["r"] * (len(words) + 1))
        self.line(
            f'call void asm sideeffect "{text}", "{classes},~{{memory}}"'
            f"(ptr addrspace(3) {self._shared_address(offset)}{operands}) #4"
        )

    def transpose_matrix(self, word: Handle) -> Handle:
        text = "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"
        return self._several(text, [I32], [("r", "i32", word)], "", 5)[0]

    def mma(
        self, kind: MmaInstruction, a: Sequence[Handle], b: Sequence[Handle], c: Sequence[Handle],
        signed: tuple[bool, bool],
    ) -> list[Handle]:  # fmt: skip
        word = F64 if kind.operand is F64 else I32
        left, right = (
            list(x) if word is F64 else self._pack(kind.operand, x, I32, len(x) // kind.per_word)
            for x in (a, b)
        )
        names = ["u8" if kind.kind == "s8" and not sign else kind.kind for sign in signed]
        total = {"i32": "s32"}.get(str(kind.accumulator), str(kind.accumulator))
        counts = (len(c), len(left), len(right))
        d, x, y = _groups(counts)
        text = (
            f"mma.sync.aligned.{kind.name}.row.col.{total}.{names[0]}.{names[1]}.{total} "
            f"{d}, {x}, {y}, {d};"
        )
        inputs = [(self.register_class(word), llvm_type(word), v) for v in (*left, *right)]
        accumulators = [(str(i), llvm_type(kind.accumulator), v) for i, v in enumerate(c)]
        return self._several(text, [kind.accumulator] * len(c), inputs + accumulators, "", 5)

    def round_tf32(self, a: Handle) -> Handle:
        word = self.pure(f'call i32 asm "cvt.rna.tf32.f32 $0, $1;", "=r,f"(float {a}) #2')
        return self._from_bits(F32, word, "i32")

    def copy_async(
        self, size: int, offset: Handle, constant: int, pointer: Handle, mask: Handle | None,
        predicate: Handle | None,
    ) -> None:  # fmt: skip
        operands = [
            ("r", "ptr addrspace(3)", self._shared_address(offset)),
            ("l", "ptr addrspace(1)", pointer),
        ]
        guard, unread, prologue = "", "", ""
        if mask is not None:
            prologue, unread = f".reg .pred p; not.pred p, ${len(operands)}; ", ", p"
            operands.append(("b", "i1", mask))
        if predicate is not None:
            guard = f"@${len(operands)} "
            operands.append(("b", "i1", predicate))
        level = "cg" if size == 16 else "ca"
        text = f"{guard}cp.async.{level}.shared.global [$0 + {constant}], [$1], {size}{unread};"
        self._effect(f"{{ {prologue}{text} }}" if prologue else text, operands)

    def commit_copies(self) -> None:
        self._effect("cp.async.commit_group;", [])

    def wait_copies(self, pending: int) -> None:
        self._effect(f"cp.async.wait_group {pending};", [])

    def _effect(self, text: str, operands: Sequence[tuple[str, str, str]]) -> None:
        constraints = ",".join((*(c for c, _, _ in operands), "~{memory}"))
        arguments = ", ".join(f"{k} {x}" for _, k, x in operands)
        self.line(f'call void asm sideeffect "{text}", "{constraints}"({arguments}) #1')

    def _several(
        self, text: str, results: Sequence[Element], operands: Sequence[tuple[str, str, str]],
        word: str, attributes: int,
    ) -> list[Handle]:  # fmt: skip
        """Inline assembly with several results. Each operand is a constraint, a type and a
        value."""
        kinds = [llvm_type(e) for e in results]
        result_type = kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
        constraints = [f"={self.register_class(e)}" for e in results]
        constraints += [c for c, _, _ in operands]
        arguments = ", ".join(f"{k} {x}" for _, k, x in operands)
        aggregate = self.emit(
            f'call {result_type} asm {word}"{text}", "{",".join(constraints)}"({arguments}) '
            f"#{attributes}"
        )
        if len(kinds) == 1:
            return [aggregate]
        return [
            self.emit(f"extractvalue {result_type} {aggregate}, {i}") for i in range(len(kinds))
        ]


def _groups(counts: Sequence[int]) -> list[str]:
    """Braced lists of consecutive operand numbers, with as many numbers as `counts` states."""
    groups: list[str] = []
    first = 0
    for count in counts:
        names = ", ".join(f"${i}" for i in range(first, first + count))
        groups.append(f"{{{names}}}")
        first += count
    return groups
