"""The targets and what they support: the table answers, and agrees with what code is written."""

import pytest

from tests.sizes import for_each
from tileir.backend import TARGETS, SupportLevel, compile as compile_kernel, supports
from tileir.builder import BF16, F32, F64, I32, Builder, pointer
from tileir.errors import CompileError
from tileir.op import all_ops
from tileir.types import F8E4M3, I8, tile

NAMES = [o.mnemonic for o in all_ops() if not o.mnemonic.startswith("gpu.")]


@for_each("name", NAMES)
def test_every_op_runs_on_every_target(name):
    assert all(supports(name, None, target) for target in TARGETS)


@for_each(
    ("op", "element", "target", "attributes", "how"),
    [
        ("fadd", BF16, "sm_80", {}, SupportLevel.EMULATED),
        ("fadd", BF16, "sm_90", {}, SupportLevel.NATIVE),
        ("fadd", F32, "sm_80", {}, SupportLevel.NATIVE),
        ("atomic_rmw", BF16, "sm_89", {"op": "fadd"}, SupportLevel.EMULATED),
        ("atomic_rmw", BF16, "sm_90", {"op": "fadd"}, SupportLevel.NATIVE),
        ("atomic_rmw", F32, "sm_90", {"op": "fmax"}, SupportLevel.EMULATED),
        ("atomic_rmw", I32, "sm_90", {"op": "smax"}, SupportLevel.NATIVE),
        ("dot", F8E4M3, "sm_90", {}, SupportLevel.EMULATED),
        ("dot", I8, "sm_80", {}, SupportLevel.NATIVE),
        ("descriptor_load", F32, "sm_90", {}, SupportLevel.EMULATED),
        ("inline_asm", I32, "sm_90", {}, SupportLevel.PERMITTED),
        ("no_such_op", I32, "sm_90", {}, SupportLevel.NONE),
    ],
)
def test_the_table_answers(op, element, target, attributes, how):
    assert supports(op, element, target, **attributes).how is how


def test_an_unknown_target_is_refused():
    with pytest.raises(CompileError, match="TIR0702"):
        supports("fadd", F32, "sm_42")


@pytest.mark.parametrize("element", ["bf16", tile(BF16, (4,))])
def test_what_is_no_element_type_has_no_answer(element):
    with pytest.raises(TypeError, match="an element type is needed, as F32, not"):
        supports("fadd", element, "sm_80")


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("element", [BF16, F64])
def test_the_code_is_what_the_table_says(element, target):
    b = Builder()
    with b.kernel("k", x=pointer(element)) as (x,):
        at = b.arange(32)
        value = (x + at).load()
        b.atomic_rmw(x + at, value + value, op="fadd", sem="relaxed")
    compiled = compile_kernel(b.module(), target)
    swaps = supports("atomic_rmw", element, target, op="fadd").how is SupportLevel.EMULATED
    assert ("atom" in compiled.ptx and ".cas." in compiled.ptx) == swaps
    native = supports("fadd", element, target).how is SupportLevel.NATIVE
    kind = {BF16: "bf16", F64: "f64"}[element]
    assert (f"add.rn.{kind}" in compiled.ptx) == native
    assert len(compiled.cubin) > 0


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_limits_are_consistent(name):
    target_ = TARGETS[name]
    assert target_.shared_bytes < target_.shared_per_processor
    assert target_.max_threads <= target_.threads_per_processor
    assert target_.max_warps == 32 and target_.max_registers == 255
    assert {"f16", "bf16", "tf32", "f64", "i8"} <= target_.mma
    assert ("f8" in target_.mma) == target_.f8_conversion


PTX = {
    "sm_80": 80, "sm_86": 80, "sm_89": 81, "sm_90": 81, "sm_90a": 84, "sm_100": 86, "sm_120": 87,
}  # fmt: skip


def test_versions_of_ptx_are_the_first_with_what_is_used():
    """A driver takes what is no newer than it is. PTX ISA, "Release Notes": sm_100 came with 8.6,
    sm_120 with 8.7; conversions of f8 on sm_89 with 8.1."""
    assert {name: result.ptx for name, result in TARGETS.items()} == PTX


@pytest.mark.parametrize("target", ["sm_80", "sm_100"])
def test_code_says_its_version_of_ptx(target):
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        x.store(1.0)
    version = PTX[target]
    text = compile_kernel(b.module(), target).ptx
    assert f".version {version // 10}.{version % 10}" in text and f".target {target}" in text
