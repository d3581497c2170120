"""Instructions for tensor cores and copies as assembly in LLVM IR: what they are told."""

from __future__ import annotations

import re

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.async_interface import WgmmaStep
from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.layouts.mma import MmaInstruction
from tileir.backend.layouts.wgmma import WgmmaInstruction
from tileir.backend.nvptx.role_branches import KernelWithRoles, _RoleThread
from tileir.backend.nvptx.thread import LlvmThread
from tileir.testing.kernels import matmul
from tileir.types import F16, F32, I8, I32

STEPS = [WgmmaStep(0, 0, 0, True), WgmmaStep(0, 32, 32, False), WgmmaStep(4, 64, 0, True)]
"""Two steps of one sum, and one of another."""


@pytest.mark.parametrize(("adding", "expected"), [(False, "010"), (True, "111")])
def test_a_dot_begins_at_zero_unless_it_adds(adding: bool, expected: str) -> None:
    """The operand after the descriptors says whether to add."""
    thread = LlvmThread()
    accumulators = [f"%c{i}" for i in range(8)]
    kind = WgmmaInstruction(8, "f16", "f16", F32)
    thread.wgmma(kind, STEPS, "%a", "%b", accumulators if adding else None)
    scales = re.findall(r"wgmma\.mma_async\S+ \{[^}]*\}, \S+, \S+, (\d),", "\n".join(thread.lines))
    assert "".join(scales) == expected


@pytest.mark.parametrize(("chosen", "guard"), [(None, ""), ("true", ""), ("%first", "@$1 ")])
def test_a_barrier_expects_bytes(chosen: str | None, guard: str) -> None:
    thread = LlvmThread()
    thread.mbarrier_expect("%at", 4096, chosen)
    (line,) = (x for x in thread.lines if "asm" in x)
    assert f'"{guard}mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], 4096;"' in line


@pytest.mark.parametrize(("complete", "name"), [(False, "wait_group.read"), (True, "wait_group")])
def test_copies_are_waited_for_to_read_or_to_write(complete: bool, name: str) -> None:
    thread = LlvmThread()
    thread.tma_wait(2, None, complete=complete)
    (line,) = (x for x in thread.lines if "asm" in x)
    assert f'"cp.async.bulk.{name} 2;"' in line


@pytest.mark.parametrize(("transposed", "name"), [(False, "x2.shared"), (True, "x2.trans.shared")])
def test_matrices_are_transposed_where_that_is_asked_for(transposed: bool, name: str) -> None:
    thread = LlvmThread()
    assert len(thread.load_matrix(F16, 2, transposed, "%at", 64)) == 4
    (line,) = (x for x in thread.lines if "ldmatrix" in x)
    assert f"ldmatrix.sync.aligned.m8n8.{name}.b16 {{$0, $1}}, [$2 + 64];" in line
    thread.store_matrix(F16, transposed, "%at", 64, ["%a", "%b", "%c", "%d"])
    (line,) = (x for x in thread.lines if "stmatrix" in x)
    assert f"stmatrix.sync.aligned.m8n8.{name}.b16 [$0 + 64], {{$1, $2}};" in line
    assert '"r,r,r,~{memory}"' in line and "sideeffect" in line


@pytest.mark.parametrize(
    ("kind", "signed", "names"),
    [
        (MmaInstruction(16, 8, 32, I8, I32, "s8"), (True, True), "s32.s8.s8.s32"),
        (MmaInstruction(16, 8, 32, I8, I32, "s8"), (False, True), "s32.u8.s8.s32"),
        (MmaInstruction(16, 8, 32, I8, I32, "s8"), (True, False), "s32.s8.u8.s32"),
        (MmaInstruction(16, 8, 16, F16, F32, "f16"), (True, True), "f32.f16.f16.f32"),
        (MmaInstruction(16, 8, 16, F16, F32, "f16"), (False, False), "f32.f16.f16.f32"),
    ],
)
def test_operands_that_are_bytes_have_signs(
    kind: MmaInstruction, signed: tuple[bool, bool], names: str
) -> None:
    thread = LlvmThread()
    a, b, c = (
        [f"%{name}{i}" for i in range(rows * columns // 32)]
        for name, rows, columns in (("a", 16, kind.k), ("b", kind.k, 8), ("c", 16, 8))
    )
    assert len(thread.mma(kind, a, b, c, signed)) == 4
    assert any(f"mma.sync.aligned.{kind.name}.row.col.{names} " in line for line in thread.lines)


def test_masked_loads_of_roles_are_filled_with_zeros() -> None:
    """The first loads of a kernel may keep what their registers contained, which are taken from its
    start on; a role begins where others may have used them."""
    kernel = KernelWithRoles(256, None)
    for thread, filled in ((kernel, False), (_RoleThread(kernel, 1, 4, 4, {}), True)):
        thread.load_global(F32, 1, "%p", "%mask", None, AccessAttributes())
        (line,) = (x for x in thread.lines if "ld.global" in x)
        assert ("mov.b32 $0" in line) == filled


def test_roles_compute_at_their_entry_what_needs_nothing_else() -> None:
    """Of what only reads the kernel's values and those of a role's entry, no loop has anything."""
    text = compile_kernel(matmul(128, 128, 64), "sm_90a", {"warp_specialize": True}).llvm
    pure = re.compile(r"(?:add|sub|mul|shl|lshr|and|or|xor|icmp|select|getelementptr|[sz]ext) ")
    at_entry = 0
    for number in (1, 2):
        entry, _, body = text.partition(f"r{number}.entry:")[2].partition(f"%r{number}.bb0\n")
        name = re.compile(rf"%r{number}t\d+")
        fixed = set(re.findall(rf"  ({name.pattern}) = ", entry))
        at_entry += sum(bool(pure.match(line.partition(" = ")[2])) for line in entry.splitlines())
        for line in body.partition(f"r{number}.after:")[0].splitlines():
            _, _, result = line.partition(" = ")
            assert not pure.match(result) or not fixed.issuperset(name.findall(result)), line
    assert at_entry > 20


def test_divisions_stay_where_they_are() -> None:
    role = _RoleThread(KernelWithRoles(256, None), 1, 4, 4, {})
    role.hoists = True
    lane, arguments = role.lane(), role.binary("add", I32, "%a0", "1")
    role.start("next")
    role.binary("udiv", I32, lane, arguments)
    role.binary("mul", I32, lane, arguments)
    role.line("after")
    assert [line.split()[2] for line in role.lines[1:-1]] == ["udiv"]
    assert [line.split()[2] for line in role.at_entry][-2:] == ["add", "mul"]
