"""Roles as branches: the warps of a role branch to the body of its function, and no other warps run
it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tileir.backend.nvptx.thread import LlvmThread
from tileir.backend.processors import MAX_REGISTERS
from tileir.backend.target import REGISTER_GRAIN, REGISTERS_PER_PROCESSOR
from tileir.types import I32

Handle = str

_GROUP = 4
"""Warps of a warpgroup."""


_DIVISION = re.compile(r"[usf](div|rem) ")


class KernelWithRoles(LlvmThread):
    """A thread of a kernel with roles. `threads` is the number of threads of a block. `limit` is
    the largest number of registers that a thread may use, None if the assembler chooses."""

    def __init__(self, threads: int, limit: int | None, scope: str = "") -> None:
        super().__init__(scope=scope)
        each = REGISTERS_PER_PROCESSOR // threads // REGISTER_GRAIN * REGISTER_GRAIN
        self.launched = limit or min(MAX_REGISTERS, each)
        self.threads = threads

    def role(self, lowering: Any, op: Any) -> None:
        from tileir.backend.codegen.lowering import (
            REMATERIALIZED_BLOCKS,  # imported here: that file imports this one
        )
        from tileir.backend.codegen.role_lowering import (
            group_barriers,
            number_of,
            within,
        )

        number = number_of(lowering, op)
        self._check_pool(lowering, op)
        inside = _RoleThread(self, number, op.first, op.warps, group_barriers(lowering, op))
        inner = within(lowering, op, inside)
        inside.hoists = REMATERIALIZED_BLOCKS not in inner.function.attributes
        inner.leaving = f"{inside.labels}end"
        inner.body()
        self.declarations.update(inside.declarations)
        self._enter(op, inside)
        if inner.alone:
            self._one(inside)
        self.lines += [*inside.at_entry, f"  br label %{inside.labels}bb0", *inside.lines]
        self.start(inner.leaving)
        if inner.alone:
            self.warp_barrier()
        self.line(f"br label %{inside.labels}after")
        self.start(f"{inside.labels}after")

    def _check_pool(self, lowering: Any, op: Any) -> None:
        """Raise CompileError (TIR0706) if the roles request more registers than the block is
        launched with: they would wait forever."""
        registers = dict.fromkeys(range(self.threads // 32), self.launched)
        roles = (each for each in lowering.function.ops if each.mnemonic == op.mnemonic)
        for role in cast("Iterator[Any]", roles):
            if role.registers:
                for warp in range(role.first, role.first + role.warps):
                    registers[warp] = role.registers
        requested, pool = 32 * sum(registers.values()), self.threads * self.launched
        if requested > pool:
            raise lowering.refuse(op, f"roles take {requested} registers, and there are {pool}")

    def _enter(self, op: Any, inside: _RoleThread) -> None:
        """Branch to the body of the role, in its warps, and set the number of registers that they
        need."""
        last = self.binary("sub", I32, self.uniform_warp(), self.integer(op.first))
        mine = self.compare("ult", I32, last, self.integer(op.warps))
        self.line(f"br i1 {mine}, label %{inside.labels}entry, label %{inside.labels}after")
        self.start(f"{inside.labels}entry")
        if op.registers and op.registers != self.launched:
            direction = "inc" if op.registers > self.launched else "dec"
            self.together(f"setmaxnreg.{direction}.sync.aligned.u32 {op.registers};", [])

    def _one(self, inside: _RoleThread) -> None:
        """Branch to the body of the role in one thread of its first warp: the one that `elect.sync`
        selects. ptxas then knows that a single thread runs the body."""
        first = self.compare("eq", I32, self.uniform_warp(), self.integer(inside.first))
        self.line(f"br i1 {first}, label %{inside.labels}warp, label %{inside.labels}end")
        self.start(f"{inside.labels}warp")
        self.declare("declare {i32, i1} @llvm.nvvm.elect.sync(i32)")
        elected = self.emit("call {i32, i1} @llvm.nvvm.elect.sync(i32 -1)")
        chosen = self.emit(f"extractvalue {{i32, i1}} {elected}, 1")
        self.line(f"br i1 {chosen}, label %{inside.labels}one, label %{inside.labels}end")
        self.start(f"{inside.labels}one")


class _RoleThread(LlvmThread):
    """A thread of a role. Its warps are numbered from 0 and have a named barrier."""

    def __init__(
        self, kernel: KernelWithRoles, number: int, first: int, warps: int, near: Mapping[str, int]
    ) -> None:
        super().__init__(f"r{number}t", kernel.scope, f"r{number}.")
        self.f8_conversion, self.watched = kernel.f8_conversion, kernel.watched
        self.bf16_atomics = kernel.bf16_atomics
        self.table, self.place, self.cluster = kernel.table, kernel.place, kernel.cluster
        self.number, self.first, self.warps, self.near = number, first, warps, near
        self._has_synchronized = True
        self.hoists = False
        """Whether loop invariants are computed before the loops: not where registers are
        short (`tileir.backend.codegen.lowering.REMATERIALIZED_BLOCKS`)."""
        self._mine = re.compile(rf"%{self._prefix}\d+")
        """Names of the role's own values. Values of the kernel exist before the role begins."""

    def slice_threads(self, handle: Handle) -> Handle:
        """A value that the threads of the kernel computed, as a value of the threads of the
        role."""
        return handle

    def is_fixed(self, text: str) -> bool:
        """Whether `text` depends only on values that exist at the role's entry. It is then computed
        there, outside the role's loops. Divisions are not moved, since a branch may guard their
        divisor."""
        if not self.hoists or self._outer is not None:
            return False
        is_own = self._fixed.issuperset(self._mine.findall(text))
        return is_own and not _DIVISION.match(text) and " #" not in text

    def thread(self) -> Handle:
        return self.once("thread", self._relative)

    def warp(self) -> Handle:
        return self.uniform_warp()

    def _relative(self) -> Handle:
        thread_of_block = self._thread()
        return self.binary("sub", I32, thread_of_block, self.integer(32 * self.first))

    def barrier(self) -> None:
        if self.warps == 1:
            self.warp_barrier()
        else:
            self._synchronize("sync", self.integer(self.number), self.warps)

    def group_barrier(self) -> None:
        first = self.integer(self.near["gpu.barrier"])
        self._synchronize("sync", self.binary("add", I32, self.group(), first), _GROUP)

    def named_barrier_sync(self) -> None:
        first = self.integer(self.near["gpu.named_barrier_sync"])
        self._synchronize("sync", self.binary("add", I32, self.group(), first), 2 * _GROUP)

    def named_barrier_arrive(self, *, begin: bool) -> None:
        last = self.integer(self.warps // _GROUP - 1)
        ends = self.compare("eq", I32, self.group(), last)
        first = self.integer(self.near["gpu.named_barrier_sync"])
        if begin:
            self.when(ends, (), lambda: self._arrive(first))
            return
        following = self.binary("add", I32, self.group(), self.integer(1))
        following = self.select(I32, ends, self.integer(0), following)
        self._arrive(self.binary("add", I32, following, first))

    def _arrive(self, number: Handle) -> list[Handle]:
        self._synchronize("arrive", number, 2 * _GROUP)
        return []

    def _synchronize(self, how: str, number: Handle, warps: int) -> None:
        """Synchronize `warps` warps at barrier `number`; `how` is `sync` or `arrive`."""
        name = f"@llvm.nvvm.barrier.cta.{how}.aligned.count"
        self.declare(f"declare void {name}(i32, i32)")
        self.line(f"call void {name}(i32 {number}, i32 {32 * warps})")
