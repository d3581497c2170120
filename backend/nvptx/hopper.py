"""The asynchronous units of sm_90, as inline assembly (PTX ISA, "mbarrier", "Data Movement and
Conversion Instructions: Tensor copy", "Asynchronous Warpgroup Level Matrix Instructions").

Assembly that all lanes of a warp execute together is convergent. A waiting loop consists of LLVM
branches around one `try_wait`. Accumulators in flight are operands and results of every wait, so
that no use moves before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tileir.backend.nvptx.memory import LlvmMemory
from tileir.backend.nvptx.text import llvm_type
from tileir.types import F16, F32, I1, I32, I64, Element

if TYPE_CHECKING:
    from tileir.backend.codegen.async_interface import TensorMapHandle, WgmmaStep
    from tileir.backend.layouts.wgmma import WgmmaInstruction

Handle = str

_LONGEST = 1_500_000_000
"""Nanoseconds after which a watched wait ends the kernel."""


_NEVER = "0x7fbadbad"
"""A NaN that no instruction produces."""


class LlvmHopper(LlvmMemory):
    """The methods of `AsyncUnits`; handles are LLVM operands."""

    watched = False
    """Whether a wait that does not end traps."""
    lane: Callable[[], Handle]
    barrier: Callable[[], None]
    warp_barrier: Callable[[], None]
    trap: Callable[[], None]
    binary: Callable[..., Handle]
    compare: Callable[..., Handle]
    select: Callable[..., Handle]

    def tensor_map(
        self,
        map: TensorMapHandle,
        base: Handle,
        extents: Sequence[Handle],
        strides: Sequence[Handle],
        chosen: Handle | None,
    ) -> Handle:
        name = f"%m{map.number}"
        self._emit_predicated("prefetch.tensormap [$0];", [("l", "ptr", name)], chosen)
        return name

    # Barriers -------------------------------------------------------------------------------

    def mbarrier_init(
        self, offset: Handle, count: int, arrivals: int, chosen: Handle | None
    ) -> None:
        lines = " ".join(
            f"mbarrier.init.shared::cta.b64 [$0+{8 * i}], {arrivals};" for i in range(count)
        )
        if chosen is None or chosen == "true":
            self.together(lines, [self._at(offset)])
            return
        text = f"{{ @!$1 bra others; {lines} others: }}"
        self.together(text, [self._at(offset), ("b", "i1", chosen)])

    def mbarrier_ready(self) -> None:
        self.together("fence.mbarrier_init.release.cluster;", [])

    def mbarrier_expect(self, offset: Handle, size: int, chosen: Handle | None) -> None:
        text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {size};"
        self._emit_predicated(text, [self._at(offset)], chosen)

    def mbarrier_arrive(self, offset: Handle, when: Handle | None) -> None:
        self.warp_barrier()
        first = self.compare("eq", I32, self.lane(), "0")
        if when is not None:
            first = self.binary("and", I1, when, first)
        self._emit_predicated("mbarrier.arrive.shared::cta.b64 _, [$0];", [self._at(offset)], first)

    def mbarrier_wait(self, offset: Handle, parity: Handle) -> None:
        self.wait_at(offset, parity, "")

    def wait_at(self, offset: Handle, parity: Handle, order: str) -> None:
        """Wait for a phase. `order` is the PTX suffix that states which accesses are ordered before
        it; '' for those of the block."""
        retry, after = self.fresh_label("wait"), self.fresh_label("waited")
        where = self._at(offset)
        before, started = self.label, self.fresh()
        self.line(f"br label %{retry}")
        self.start(retry)
        place = len(self.lines)
        self.lines.append("")
        text = (
            f"{{ .reg .pred p; mbarrier.try_wait.parity{order}.shared::cta.b64 p, [$1], $2; "
            "selp.b32 $0, 1, 0, p; }"
        )
        constraints = '"=r,r,r,~{memory}"'
        ready = self.emit(
            f'call i32 asm sideeffect "{text}", {constraints}'
            f"({where[1]} {where[2]}, i32 {parity}) #4"
        )
        done = self.compare("ne", I32, ready, "0")
        if self.watched:
            self._watch(done, (retry, after, before, started), place)
        else:
            self.line(f"br i1 {done}, label %{after}, label %{retry}")
        self.start(after)

    def _watch(self, done: Handle, names: tuple[str, str, str, str], place: int) -> None:
        """Continue to wait, or end the kernel if the wait takes too long."""
        retry, after, before, started = names
        slow, hung = self.fresh_label("slow"), self.fresh_label("hung")
        self.line(f"br i1 {done}, label %{after}, label %{slow}")
        self.start(slow)
        now = self.emit('call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"() #1')
        fresh = self.compare("eq", I64, started, "0")
        first = self.select(I64, fresh, now, started)
        spent = self.binary("sub", I64, now, first)
        expired = self.compare("ugt", I64, spent, str(_LONGEST))
        self.lines[place] = f"  {started} = phi i64 [ 0, %{before} ], [ {first}, %{slow} ]"
        self.line(f"br i1 {expired}, label %{hung}, label %{retry}")
        self.start(hung)
        self.trap()
        self.line("unreachable")

    # Copies ---------------------------------------------------------------------------------

    def tma_load(
        self, map: Handle, offset: Handle, barrier: Handle, indices: Sequence[Handle],
        chosen: Handle | None,
    ) -> None:  # fmt: skip
        at, names = self._coordinates(indices, 3)
        text = (
            f"cp.async.bulk.tensor.{len(indices)}d.shared::cluster.global.tile"
            f".mbarrier::complete_tx::bytes [$0], [$1, {names}], [$2];"
        )
        operands = [self._at(offset), ("l", "ptr", map), self._at(barrier), *at]
        self._emit_predicated(text, operands, chosen)

    def tma_store(
        self, map: Handle, offset: Handle, indices: Sequence[Handle], chosen: Handle | None, *,
        add: bool,
    ) -> None:  # fmt: skip
        at, names = self._coordinates(indices, 2)
        copy, kind = ("cp.reduce", ".add") if add else ("cp", "")
        text = (
            f"{copy}.async.bulk.tensor.{len(indices)}d.global.shared::cta{kind}.tile.bulk_group "
            f"[$1, {names}], [$0];"
        )
        self._emit_predicated(text, [self._at(offset), ("l", "ptr", map), *at], chosen)

    def tma_commit(self, chosen: Handle | None) -> None:
        self._emit_predicated("cp.async.bulk.commit_group;", [], chosen)

    def tma_wait(self, pending: int, chosen: Handle | None, *, complete: bool) -> None:
        modifier = "" if complete else ".read"
        self._emit_predicated(f"cp.async.bulk.wait_group{modifier} {pending};", [], chosen)

    def async_fence(self) -> None:
        self.together("fence.proxy.async.shared::cta;", [])

    def _coordinates(
        self, indices: Sequence[Handle], first: int
    ) -> tuple[list[tuple[str, str, str]], str]:
        """The operands of the coordinates, fastest dimension first, and their names, starting at
        number `first`."""
        names = ", ".join(f"${first + i}" for i in range(len(indices)))
        return [("r", "i32", x) for x in reversed(indices)], f"{{{names}}}"

    # wgmma ----------------------------------------------------------------------------------

    def shared_address(self, offset: Handle) -> Handle:
        return self.pure(f"ptrtoint ptr addrspace(3) {self._shared_address(offset)} to i32")

    def wgmma(
        self, kind: WgmmaInstruction, steps: Sequence[WgmmaStep], a: Handle | Sequence[Handle],
        b: Handle, c: Sequence[Handle] | None,
    ) -> list[Handle]:  # fmt: skip
        count = (
            kind.accumulator_count * sum(p.first for p in steps) // _per_register(kind.accumulator)
        )
        moves = ""
        if isinstance(a, str):
            left = [("l", "i64", a)]
        else:
            words = self._pack(kind.operand, a, I32, len(a) * kind.bits // 32)
            left = [("r", "i32", x) for x in words]
            moves = _own_registers(count, len(words))
        body = " ".join(
            _instruction(kind, p, (count, len(left)), isinstance(a, str), c is not None)
            for p in steps
        )
        text = (
            f"{{ .reg .b64 da, db; {moves}wgmma.fence.sync.aligned; "
            f"{body} wgmma.commit_group.sync.aligned; }}"
        )
        return self._accumulate(text, kind.accumulator, count, c, [*left, ("l", "i64", b)])

    def wgmma_wait(self, element: Element, values: Sequence[Handle], pending: int) -> list[Handle]:
        count = len(values) // _per_register(element)
        text = f"wgmma.wait_group.sync.aligned {pending};"
        return self._accumulate(text, element, count, values, [])

    def order(self, value: Handle) -> None:
        text = (
            "{ .reg .pred p; .reg .b32 bits; mov.b32 bits, $0; "
            f"setp.eq.u32 p, bits, {_NEVER}; @p st.shared.b32 [bits], bits; }}"
        )
        self.line(f'call void asm sideeffect "{text}", "f,~{{memory}}"(float {value}) #1')

    def _accumulate(
        self, text: str, element: Element, count: int, tied: Sequence[Handle] | None,
        operands: Sequence[tuple[str, str, str]],
    ) -> list[Handle]:  # fmt: skip
        """Inline assembly with `count` result registers of accumulators, which it may also take as
        operands."""
        word = F32 if element is F32 else I32
        words_in = tied if element is not F16 or tied is None else self._pack(F16, tied, I32, count)
        bindings = [(str(i), llvm_type(word), x) for i, x in enumerate(words_in or ())]
        register, kind = self.register_class(word), llvm_type(word)
        inputs = [*operands, *bindings]
        constraints = [*[f"={register}"] * count, *(c for c, _, _ in inputs), "~{memory}"]
        result_type = self.several(kind, count)
        arguments = ", ".join(f"{k} {x}" for _, k, x in inputs)
        aggregate = self.emit(
            f'call {result_type} asm sideeffect "{text}", "{",".join(constraints)}"({arguments}) #4'
        )
        words = [self.emit(f"extractvalue {result_type} {aggregate}, {i}") for i in range(count)]
        return words if element is not F16 else self._unpack(F16, 2 * count, I32, words)

    # Assembly -------------------------------------------------------------------------------

    def _at(self, offset: Handle) -> tuple[str, str, str]:
        """The operand that is the address of byte `offset` of shared memory."""
        return "r", "ptr addrspace(3)", self._shared_address(offset)

    def _emit_predicated(
        self, text: str, operands: Sequence[tuple[str, str, str]], chosen: Handle | None
    ) -> None:
        """An instruction predicated on `chosen`; None for every thread."""
        if chosen is None or chosen == "true":
            self.together(text, operands)
        else:
            guard = f"@${len(operands)} "
            self.together(guard + text, [*operands, ("b", "i1", chosen)])

    def together(self, text: str, operands: Sequence[tuple[str, str, str]]) -> None:
        constraints = ",".join((*(c for c, _, _ in operands), "~{memory}"))
        arguments = ", ".join(f"{k} {x}" for _, k, x in operands)
        self.line(f'call void asm sideeffect "{text}", "{constraints}"({arguments}) #4')


def _own_registers(first: int, count: int) -> str:
    """Registers for operand A, filled from assembly operand `first` on. wgmma reads them until the
    wait. Without these copies, ptxas might overwrite the registers for the next iteration before
    the wait."""
    moves = "".join(f"mov.b32 f{i}, ${first + i}; " for i in range(count))
    return f".reg .b32 f<{count}>; {moves}"


def _per_register(element: Element) -> int:
    """The number of accumulator elements that share a register."""
    return 2 if element is F16 else 1


def _instruction(
    kind: WgmmaInstruction,
    step: WgmmaStep,
    counts: tuple[int, int],
    described: bool,
    adding: bool,
) -> str:
    """One wgmma instruction. Its operands are `counts[0]` accumulators, then A in `counts[1]`
    operands, then the descriptor of B. If `described`, A is a descriptor, too. Accumulators start
    at zero unless `adding`."""
    results, left = counts
    first = step.accumulator // _per_register(kind.accumulator)
    d = _register_list(first, kind.accumulator_count // _per_register(kind.accumulator))
    moves, names = "", list[str]()
    for name, number, offset in (("da", results, step.a), ("db", results + left, step.b)):
        if name == "da" and not described:
            names.append(_register_list(offset * kind.bits // 32, 4, "f"))
        elif offset:
            moves += f"add.s64 {name}, ${number}, {offset >> 4}; "
            names.append(name)
        else:
            names.append(f"${number}")
    scale = "1" if adding or not step.first else "0"
    tail = kind.tail if described or kind.bits != 16 else (*kind.tail[:-2], kind.tail[-1])
    return f"{moves}{kind.name} {d}, {', '.join((*names, scale, *tail))};"


def _register_list(first: int, count: int, letter: str = "$") -> str:
    return f"{{{', '.join(f'{letter}{i}' for i in range(first, first + count))}}}"
