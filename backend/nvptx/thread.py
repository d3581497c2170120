"""The thread interface as a writer of LLVM IR text for NVPTX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileir.backend.nvptx.atomics import LlvmAtomics
from tileir.backend.nvptx.clusters import LlvmClusters
from tileir.backend.nvptx.mma import LlvmMatrices
from tileir.backend.nvptx.system_calls import LlvmOutside
from tileir.backend.nvptx.text import (
    LOOP_NODE,
    fold_constants,
    intrinsic_suffix,
    is_literal,
    literal,
    llvm_type,
    memory_type,
    symbol,
)
from tileir.types import F32, F64, I32, Element, Pointer, Type

if TYPE_CHECKING:
    from tileir.backend.nvptx.phis import PhiBuilder

Handle = str

_REDUCTIONS = {
    "add": "add", "smin": "min", "smax": "max", "umin": "umin", "umax": "umax", "and": "and",
    "or": "or", "xor": "xor",
}  # fmt: skip
"""The operations of `redux.sync`, as LLVM names them, by combiner."""

_HALF: Mapping[Element, tuple[Handle, str]] = {
    F32: (literal(F32, 0x3F000000), "f"), F64: (literal(F64, 0x3FE0 << 48), "d"),
}  # fmt: skip
"""One half, and the letter of LLVM's intrinsics, by element."""

_TRAP = "call void @llvm.trap()"

_KEEP_LOADS = 'call void asm sideeffect "", "~{memory}"()'
"""No instruction. LLVM moves no load across it. Else it moves a load to the block after a branch if
only that block reads the value, and the load waits for what the condition of the branch depends
on."""


class LlvmThread(LlvmAtomics, LlvmMatrices, LlvmClusters, LlvmOutside):
    """Writes instructions for one thread; handles are LLVM operands without their type."""

    slow_conversions = True
    approximates = True
    divides_all = True
    adds_wide_multiples = True

    def branch(self, label: str, unroll: int = 1) -> None:
        self.line(f"br label %{label}{_hint(unroll)}")

    def branch_if(self, condition: Any, then: str, otherwise: str, unroll: int = 1) -> None:
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}{_hint(unroll)}")

    def binary(self, name: str, element: Element, a: Handle, b: Handle, flags: str = "") -> Handle:
        if is_literal(a) or is_literal(b):
            constant = fold_constants(name, element, a, b)
            if constant is not None:
                return constant
        word = f"{name} {flags}" if flags else name
        result = self.pure(f"{word} {llvm_type(element)} {a}, {b}")
        if name == "add" and "nsw" in flags and is_literal(b):
            self._constant_additions[result] = a, b
        return result

    def intrinsic(self, name: str, element: Element, *operands: Handle, flags: str = "") -> Handle:
        if name == "round" and element in _HALF:
            return self._round_half_away(element, *operands)
        kind = llvm_type(element)
        function = f"@llvm.{name}.{intrinsic_suffix(element)}"
        extra = ", i1 false" if name in ("abs", "ctlz", "cttz") else ""
        types = ", ".join([kind] * len(operands)) + (", i1" if extra else "")
        self.declare(f"declare {kind} {function}({types})")
        arguments = ", ".join(f"{kind} {x}" for x in operands) + extra
        result = self.pure(f"call {flags + ' ' if flags else ''}{kind} {function}({arguments})")
        if name == "trunc":
            self._truncated[result] = operands[0]
        return result

    def _round_half_away(self, element: Element, x: Handle) -> Handle:
        """The integer nearest to `x`, ties away from zero: add a half of its sign, rounding the
        addition toward zero, and truncate. The inexact sum then never reaches the next integer.
        LLVM's expansion of the intrinsic takes nine instructions."""
        half, suffix = _HALF[element]
        moved = self.intrinsic("copysign", element, half, x)
        kind, add = llvm_type(element), f"@llvm.nvvm.add.rz.{suffix}"
        self.declare(f"declare {kind} {add}({kind}, {kind})")
        return self.intrinsic(
            "trunc", element, self.pure(f"call {kind} {add}({kind} {x}, {kind} {moved})")
        )

    def negate(self, element: Element, a: Handle) -> Handle:
        return self.pure(f"fneg {llvm_type(element)} {a}")

    def scale_by_power(self, element: Element, a: Handle, power: Handle) -> Handle | None:
        return None

    def compare(self, predicate: str, element: Element, a: Handle, b: Handle) -> Handle:
        word = "fcmp" if element.is_float else "icmp"
        return self.pure(f"{word} {predicate} {llvm_type(element)} {a}, {b}")

    def select(self, element: Element, condition: Handle, a: Handle, b: Handle) -> Handle:
        if a == b or condition == "true":
            return a
        kind = llvm_type(element)
        return self.pure(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def convert(self, name: str, source: Element, target: Element, a: Handle) -> Handle:
        old, new = llvm_type(source), llvm_type(target)
        if name.startswith("fpto"):
            a = self._truncated.get(a, a)
        if name.endswith(".sat"):
            function = f"@llvm.{name}.{intrinsic_suffix(target)}.{intrinsic_suffix(source)}"
            self.declare(f"declare {new} {function}({old})")
            return self.pure(f"call {new} {function}({old} {a})")
        return a if old == new else self.pure(f"{name} {old} {a} to {new}")

    def call(
        self, name: str, results: Sequence[Type], operands: Sequence[tuple[Type, Handle]]
    ) -> list[Handle]:
        kinds = [llvm_type(t) for t in results]
        kind = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
        arguments = ", ".join(f"{llvm_type(t)} {x}" for t, x in operands)
        text = f"call {kind} {symbol(self.scope + name)}({arguments})"
        if not kinds:
            self.line(text)
            return []
        result = self.emit(text)
        if len(kinds) == 1:
            return [result]
        return [self.emit(f"extractvalue {kind} {result}, {i}") for i in range(len(kinds))]

    def advance(self, kind: Pointer, pointer: Handle, index: Handle, width: Element) -> Handle:
        pointee, base = memory_type(kind.pointee), llvm_type(kind)
        # A constant offset is added by a separate instruction. LLVM would otherwise split it off
        # for each element of a thread, and then compare the addresses in pairs.
        for step in self._constant_additions.get(index, (index,)):
            moved = f"{pointee}, {base} {pointer}, {llvm_type(width)} {step}"
            pointer = self.pure(f"getelementptr {moved}")
        return pointer

    def advance_here(self, kind: Pointer, pointer: Handle, index: Handle, width: Element) -> Handle:
        if width.bits > 32:
            return self.advance(kind, pointer, index, width)
        step = index if width.bits == 32 else self.convert("sext", width, I32, index)
        base = llvm_type(kind)
        text = f"mad.wide.s32 $0, $1, {kind.pointee.bytes}, $2;"
        return self.emit(f'call {base} asm "{text}", "=l,r,l"(i32 {step}, {base} {pointer}) #2')

    # Position of the thread ---------------------------------------------------------------

    def block_parameters(self) -> PhiBuilder:
        from tileir.backend.nvptx.phis import PhiBuilder  # needed only by kernels with loops

        return PhiBuilder(self)

    def lane(self) -> Handle:
        return self.once("lane", lambda: self.emit(f"and i32 {self.thread()}, 31"))

    def warp(self) -> Handle:
        return self.once("warp", lambda: self.emit(f"lshr i32 {self.thread()}, 5"))

    def uniform_warp(self) -> Handle:
        """The index of the warp in its block, in a form that the assembler knows to be uniform
        across the warp."""
        return self.once("uniform warp", self._uniform_warp)

    def _uniform_warp(self) -> Handle:
        name = "@llvm.nvvm.shfl.sync.idx.i32"
        self.declare(f"declare i32 {name}(i32, i32, i32, i32)")
        mine = self.emit(f"lshr i32 {self.thread()}, 5")
        return self.emit(f"call i32 {name}(i32 -1, i32 {mine}, i32 0, i32 31)")

    def group(self) -> Handle:
        return self.once("group", lambda: self.emit(f"lshr i32 {self.uniform_warp()}, 2"))

    def thread(self) -> Handle:
        """Index of the thread in its block, an i32."""
        return self.once("thread", self._thread)

    def _thread(self) -> Handle:
        if self._outer is not None:
            text = "{ .reg .b32 t; mov.u32 t, %tid.x; shfl.sync.bfly.b32 $0, t, 0, 31, -1; }"
            return self.emit(f'call i32 asm sideeffect "{text}", "=r"() #4')
        return self._read("tid.x")

    def program_id(self, axis: int) -> Handle:
        word = "clusterid" if self.cluster > 1 and not axis else "ctaid"
        return self.once(f"program {axis}", lambda: self._read(f"{word}.{'xyz'[axis]}"))

    def program_count(self, axis: int) -> Handle:
        word = "nclusterid" if self.cluster > 1 and not axis else "nctaid"
        return self.once(f"programs {axis}", lambda: self._read(f"{word}.{'xyz'[axis]}"))

    def role(self, lowering: Any, op: Any) -> None:
        """Refuse the op: only kernels start roles (`tileir.backend.nvptx.role_branches`)."""
        raise lowering.refuse(op, "only a kernel starts roles")

    def join(self) -> None:
        self.barrier()

    # Synchronization ----------------------------------------------------------------------

    def shuffle_xor(self, element: Element, a: Handle, mask: int) -> Handle:
        return self._shuffle("bfly", element, a, str(mask))

    def shuffle_index(self, element: Element, a: Handle, lane: Handle) -> Handle:
        return self._shuffle("idx", element, a, lane)

    def reduce_lanes(self, element: Element, combiner: str, a: Handle) -> Handle | None:
        name = _REDUCTIONS.get(combiner)
        if name is None:
            return None
        extend = "sext" if combiner.startswith("s") else "zext"  # signed integers
        word = a if element.bits == 32 else self.convert(extend, element, I32, a)
        name = f"@llvm.nvvm.redux.sync.{name}"
        self.declare(f"declare i32 {name}(i32, i32)")
        total = self.emit(f"call i32 {name}(i32 {word}, i32 -1)")
        return total if element.bits == 32 else self.convert("trunc", I32, element, total)

    def _shuffle(self, mode: str, element: Element, a: Handle, what: Handle) -> Handle:
        name = f"@llvm.nvvm.shfl.sync.{mode}.i32"
        self.declare(f"declare i32 {name}(i32, i32, i32, i32)")
        words = [
            self.emit(f"call i32 {name}(i32 -1, i32 {word}, i32 {what}, i32 31)")
            for word in self.to_words(element, a)
        ]
        return self.from_words(element, words)

    def barrier(self) -> None:
        self._has_synchronized = True
        self.declare("declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)")
        self.line("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def warp_barrier(self) -> None:
        self.declare("declare void @llvm.nvvm.bar.warp.sync(i32)")
        self.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")

    def group_barrier(self) -> None:
        self.barrier()  # a block barrier, which is stronger than needed; roles override this method

    def named_barrier_sync(self) -> None:
        """Do nothing: the ping-pong order applies only to warpgroups of a role."""

    def named_barrier_arrive(self, *, begin: bool) -> None:
        """Do nothing, as `named_barrier_sync`."""

    def where_any(
        self, condition: Handle, element: Element, values: Sequence[Handle],
        body: Callable[[], Sequence[Handle]],
    ) -> list[Handle]:  # fmt: skip
        vote = "@llvm.nvvm.vote.any.sync"
        self.declare(f"declare i1 {vote}(i32, i1)")
        somewhere = self.emit(f"call i1 {vote}(i32 -1, i1 {condition})")
        before, inside, after = self.label, self.fresh_label("then"), self.fresh_label("after")
        self.line(f"br i1 {somewhere}, label %{inside}, label %{after}")
        self.start(inside)
        results, last = list(body()), self.label
        self.line(f"br label %{after}")
        self.start(after)
        kind = llvm_type(element)
        return [
            self.emit(f"phi {kind} [ {new}, %{last} ], [ {old}, %{before} ]")
            for new, old in zip(results, values, strict=True)
        ]

    def when(
        self, condition: Handle, elements: Sequence[Element],
        body: Callable[[], Sequence[Handle]], otherwise: Sequence[Handle] = (),
    ) -> list[Handle]:  # fmt: skip
        if condition == "true":
            return list(body())
        before, inside, after = self.label, self.fresh_label("then"), self.fresh_label("after")
        branch = len(self.lines)
        self.line(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        results = list(body())
        last = self.label
        if _TRAP in self.lines[-1]:
            self.lines.insert(branch, f"  {_KEEP_LOADS}")
        self.line(f"br label %{after}")
        self.start(after)
        joined: list[Handle] = []
        defaults = otherwise or [self.constant(e, 0) for e in elements]
        for element, value, other in zip(elements, results, defaults, strict=True):
            kind = llvm_type(element)
            joined.append(self.emit(f"phi {kind} [ {value}, %{last} ], [ {other}, %{before} ]"))
        return joined

    def loop(
        self,
        count: int,
        elements: Sequence[Element],
        initial: Sequence[Handle],
        body: Callable[[Handle, list[Handle]], Sequence[Handle]],
    ) -> list[Handle]:
        head, exit_ = self.fresh_label("loop"), self.fresh_label("done")
        before, index = self.label, self.fresh()
        carried = [self.fresh() for _ in initial]
        self.line(f"br label %{head}")
        self.start(head)
        place = len(self.lines)
        self.lines.append("")
        results = list(body(index, carried))
        following = self.binary("add", I32, index, "1", "nuw nsw")
        more = self.compare("ult", I32, following, str(count))
        latch = self.label
        self.line(f"br i1 {more}, label %{head}, label %{exit_}")
        phis = [f"  {index} = phi i32 [ 0, %{before} ], [ {following}, %{latch} ]"]
        for name, element, first, last in zip(carried, elements, initial, results, strict=True):
            kind = llvm_type(element)
            phis.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {last}, %{latch} ]")
        self.lines[place] = "\n".join(phis)
        self.start(exit_)
        return results

    def trap(self) -> None:
        self.declare("declare void @llvm.trap()")
        self.line(_TRAP)

    def effect(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Handle]]
    ) -> Handle:
        return self._assembly(text, result, operands, "sideeffect ", "#1")

    def instruction(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Handle]]
    ) -> Handle:
        value = self._assembly(text, result, operands, "", "#2")
        self.movable.add(value)
        return value

    def _assembly(
        self,
        text: str,
        result: Element,
        operands: Sequence[tuple[Element, Handle]],
        word: str,
        attributes: str,
    ) -> Handle:
        kinds = [(self.register_class(e), llvm_type(e), x) for e, x in operands]
        inputs = ",".join(c for c, _, _ in kinds)
        constraints = f"={self.register_class(result)}" + ("," + inputs if inputs else "")
        arguments = ", ".join(f"{k} {x}" for _, k, x in kinds)
        kind = llvm_type(result)
        return self.emit(
            f'call {kind} asm {word}"{text}", "{constraints}"({arguments}) {attributes}'
        )

    def integer(self, number: int) -> Handle:
        return self.constant(I32, number & 0xFFFFFFFF)


def _hint(unroll: int) -> str:
    """The annotation of a branch to the header of a loop that is to be unrolled by `unroll`."""
    return f", !llvm.loop !{LOOP_NODE + unroll}" if unroll > 1 else ""
