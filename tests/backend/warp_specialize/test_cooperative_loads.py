"""Parts of the passes that make roles, each by itself: what is unsigned, which rows are rows, what
one thread does, in which order panels pass through stages, which passes leave a kernel as it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from tests.backend.warp_specialize.test_unmapped import check, problem
from tests.sizes import for_each
from tileir.analysis.clusters import ATTRIBUTE
from tileir.backend.codegen.role_lowering import by_one, role_functions
from tileir.backend.compile import Options, _warp_specialize
from tileir.backend.target import target
from tileir.backend.tma.register_operands import is_row
from tileir.backend.transforms.unsigned_division import unsigned_divisions
from tileir.backend.warp_specialize.alternate_instances import alternate_instances
from tileir.backend.warp_specialize.driver import warp_specialize
from tileir.backend.warp_specialize.epilogue import _store_order, can_stage, epilogue_smem_bytes
from tileir.backend.warp_specialize.options import WarpSpecializeOptions, WarpSpecializeResult
from tileir.builder import F16, F32
from tileir.interp import interpret
from tileir.ir import Function, Module
from tileir.passmanager import run
from tileir.refusal import Refusal
from tileir.testing.kernels import matmul
from tileir.textual import parse, print_module
from tileir.types import Tile
from tileir.values import Value

FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"


# Unsigned divisions -------------------------------------------------------------------------------


def division_mnemonics(*lines: str) -> list[str]:
    """What becomes of ops `%v0`, `%v1`, ... of %p, never negative, %q, at least 1, and %n."""
    body = "".join(f"  %v{i} = {line}\n" for i, line in enumerate(lines))
    stores = "".join(f"  store %x, %v{i}\n" for i in range(len(lines)))
    text = (
        "tir 1.0\n\ndefine kernel void @k(i32* %x, i32 %n) {\nentry:\n  %p = program_id i32\n"
        f"  %q = smax i32 %n, 1\n{body}{stores}  ret\n}}\n"
    )
    function = parse(text).kernel()
    divisions = unsigned_divisions(function)
    if divisions is function:
        return []
    ops = {v.name: op for op in divisions.ops for v in op.results}
    return [ops[f"v{i}"].mnemonic for i in range(len(lines))]


def test_divisions_of_what_is_never_negative() -> None:
    assert division_mnemonics("sdiv i32 %p, %q", "srem i32 %p, %q") == ["udiv", "urem"]
    assert division_mnemonics("sdiv i32 %p, 7 {rounding = floor}") == ["udiv"]
    assert division_mnemonics("srem i32 %p, %q {rounding = floor}") == ["urem"]
    assert division_mnemonics("sdiv i32 %p, %q {rounding = ceil}") == ["sdiv"]
    assert division_mnemonics("sdiv i32 %n, %q", "sdiv i32 %p, %n", "srem i32 %p, -7") == [
        "sdiv", "sdiv", "srem",
    ]  # fmt: skip
    assert division_mnemonics("add i32 %p, %q", "sdiv i32 %p, %q") == ["add", "udiv"]
    assert division_mnemonics("add i32 %p, %q", "udiv i32 %n, %q") == []


# Rows and threads ---------------------------------------------------------------------------------


@for_each(
    ("shape", "row"),
    [
        ((16,), True),
        ((1, 16), True),
        ((1, 1, 16), True),
        ((2, 16), False),
        ((16, 1), False),
        ((1, 4, 16), False),
        ((4, 1, 16), False),
        ((1,), True),
    ],
)
def test_a_row_is_of_the_last_dimension_alone(shape: tuple[int, ...], row: bool) -> None:
    assert is_row(SimpleNamespace(results=(Value(Tile(F16, shape)),))) == row


MATMUL = run(matmul(64, 64, 32), f"{FRONT},persist,warp-specialize").module


def test_copies_are_what_one_thread_does() -> None:
    functions = role_functions(MATMUL.functions, MATMUL.functions["matmul"])
    assert {name: by_one(MATMUL.functions[name]) for name in functions} == {
        "matmul.producer": True, "matmul.consumer": False,
    }  # fmt: skip


@for_each(("line", "alone"), [
        ("%v = add i32 %n, 1", True), ("%v = load i32 %x", True), ("%v = sdiv i32 4, %n", True),
        ("store %x, 1", False), ("%v = make_range i32<16>", False), ("gpu.barrier", False),
        ("%v = atomic_rmw i32 %x, 1 {op = add}", False), ("assume %c", True),
    ])  # fmt: skip
def test_what_one_thread_may_do_for_all(line: str, alone: bool) -> None:
    text = f"tir 1.0\n\ndefine void @f(i32* %x, i32 %n, i1 %c) {{\nentry:\n  {line}\n  ret\n}}\n"
    if line.startswith("gpu."):
        text = text.replace("tir 1.0\n", 'tir 1.0\nstage "roles"\n')
    assert by_one(parse(text).functions["f"]) == alone


# Panels and stages --------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Part:
    """As much of panels as their order depends on."""

    count: int
    buffer: Any


def outlet(*panels: tuple[int, int], mapped: bool) -> Any:
    """Panels of an outlet: their number, and stages of their buffer."""
    parts = [Part(n, SimpleNamespace(shape=(s, 64, 64))) for n, s in panels]
    return SimpleNamespace(parts=parts, staged=SimpleNamespace(unit=0 if mapped else 16))


OUTLETS = [((1, 1),), ((2, 2),), ((3, 2),), ((4, 2),), ((1, 1), (1, 1)), ((2, 2), (1, 1)),
           ((3, 2), (1, 1)), ((5, 2), (1, 1))]  # fmt: skip


@for_each("mapped", [False, True])
@for_each("panels", OUTLETS)
def test_stages_are_written_when_what_was_copied_has_been_read(panels: Any, mapped: bool) -> None:
    """Two stores one after the other, by tensor maps: of the copies begun, those that may still
    read when an iteration is written are none of its stages', and are as many as there are else."""
    it = outlet(*panels, mapped=mapped)
    iterations = list(_store_order(it))
    order = [(id(part), index) for _, result in iterations for part, index in result]
    assert order == [(id(p), i) for p in it.parts for i in range(p.count)]
    begun: list[tuple[int, int]] = []
    for _ in range(3):
        for pending, accesses in iterations:
            stages = [(id(p), i % p.buffer.shape[0]) for p, i in accesses]
            assert len(set(stages)) == len(stages)
            still = begun[len(begun) - pending :] if pending else []
            assert not set(still) & set(stages)
            if len(begun) > pending:
                assert begun[len(begun) - pending - 1] in stages
            begun += stages
    several = mapped and it.parts[0].count > 2
    if several:
        alone = [len({i for p, i in result if p is it.parts[0]}) for _, result in iterations]
        assert max(alone) == 1
    else:
        assert len(iterations) == max(-(-p.count // p.buffer.shape[0]) for p in it.parts)


def staged_operand(columns: int, kind: Any = F16, rows: int = 64, unit: int = 0) -> Any:
    return SimpleNamespace(rows=rows, columns=columns, element=kind, unit=unit, op=None)


def test_bytes_of_outlets() -> None:
    """Two stages of panels of 128 bytes where there are several, and what is left."""
    for columns, size in ((64, 8192), (128, 16384), (256, 16384), (32, 4096), (72, 9216),
                          (200, 17408)):  # fmt: skip
        assert epilogue_smem_bytes([staged_operand(columns)]) == size
        assert epilogue_smem_bytes([staged_operand(columns), staged_operand(columns)]) == size
        assert (
            epilogue_smem_bytes([staged_operand(columns), staged_operand(columns, unit=16)])
            == 2 * size
        )
    assert epilogue_smem_bytes([staged_operand(64, F32)]) == 16384 and epilogue_smem_bytes([]) == 0
    assert [can_stage(staged_operand(n)) for n in (8, 64, 4, 12)] == [True, True, False, False]


# Passes -------------------------------------------------------------------------------------------

PREFETCHED = """tir 1.0
stage "warp_specialized"

define private void @math(f16* %x, i32* %t, f16 addrspace(3)* %b, i32 %n, f32*<64, 8> %p) {
entry:
  %k = make_range i32<16>
  %q = expand_dims i32<1, 16> %k {axis = 0}
  %o = broadcast i32<64, 16> %q
  br loop
loop:
  %i = phi i32 [0, entry], [%j, body]
  %sum = phi f32<64, 8> [0.0, entry], [%y, body]
  %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
  cond_br %more, body, done
body:
  %pt = getelementptr i32* %t, %i
  %d = load i32 %pt
  %ds = splat i32<64, 16> %d
  %at = add i32<64, 16> %o, %ds
  %xs = splat f16*<64, 16> %x
  %px = getelementptr f16*<64, 16> %xs, %at
  %a = load f16<64, 16> %px
  %z = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %sum
  %y = gpu.wgmma_wait f32<64, 8> %z
HERE  %j = add i32 %i, 1
  br loop
done:
  store %p, %sum
  ret
}
"""


@pytest.mark.parametrize(
    ("line", "prefetched"),
    [
        ("", True), ("  gpu.barrier\n", True), ("  store %pt, %i\n", False),
        ("  %old = atomic_rmw i32 %t, 1 {op = add}\n", False),
        ("  %more2 = fadd f32<64, 8> %y, %y\n", True),
    ],
)  # fmt: skip
def test_loads_are_prefetched_where_nothing_changes_what_they_read(
    line: str, prefetched: bool
) -> None:
    text = PREFETCHED.replace("HERE", line)
    printed = print_module(run(parse(text), "prefetch-register-operands").module)
    assert (printed != text) == prefetched
    if prefetched:
        loop, body = printed.partition("loop:")[2].partition("body:")[::2]
        assert "phi f16<64, 16>" in loop
        assert body.index("gpu.wgmma ") < body.index("= load f16<64, 16>")


@pytest.mark.parametrize("transposed", [False, True])
def test_matmuls_of_few_rows_are_transposed_and_their_operands_used_as_they_are(
    transposed: bool,
) -> None:
    text = (
        "tir 1.0\n\ndefine void @k(f16*<16, 32> %x, f16*<64, 32> %y, f16*<32, 64> %z, "
        "f32*<16, 64> %r) {\nentry:\n  %a = load f16<16, 32> %x\n"
    )
    if transposed:
        text += "  %w = load f16<64, 32> %y\n  %b = trans f16<32, 64> %w {order = [1, 0]}\n"
    else:
        text += "  %b = load f16<32, 64> %z\n"
    text += "  %c = dot f32<16, 64> %a, %b, 0.0\n  store %r, %c\n  ret\n}\n"
    module = run(parse(text), "swap-operands").module
    ops = [op for f in module.functions.values() for op in f.ops]
    (dot,) = (op for op in ops if op.mnemonic == "dot")
    assert dot.result.type.shape == (64, 16)  # type: ignore[attr-defined]
    turned = [op for op in ops if op.mnemonic == "trans" and op.results[0] in dot.inputs]
    assert [t.results[0] is dot.inputs[0] for t in turned] == (
        [False] if transposed else [True, False]
    )


def test_steps_that_are_shared_end_before_they_wrap() -> None:
    """What a loop counts to is assumed to be small, unless that is known."""
    module = run(matmul(64, 64, 32), f"{FRONT},split-k{{ranks = 4}}").module
    function = module.functions["matmul"]
    assumed = [op for op in function.entry.ops if op.mnemonic == "assume"]
    names = {str(v.name) for op in function.entry.ops if op.mnemonic == "icmp"
             and op.results[0] in [a.inputs[0] for a in assumed] for v in op.inputs
             if isinstance(v, Value)}  # fmt: skip
    assert "k" in names


# The front ----------------------------------------------------------------------------------------


def attributes(module: Module) -> Any:
    return module.functions["matmul"].attributes


@pytest.mark.parametrize("multicast", [1, 2, 4])
def test_operands_are_multicast_where_requested(multicast: int) -> None:
    specialized = warp_specialize(
        matmul(64, 64, 32), "matmul", WarpSpecializeOptions(warps=4, multicast=multicast)
    )
    assert specialized.applied and specialized.module.stage == "warp_specialized"
    copies = [
        op.multicast
        for f in specialized.module.functions.values()
        for op in f.ops
        if op.mnemonic == "gpu.tma_load"
    ]  # type: ignore[attr-defined]
    assert (ATTRIBUTE in attributes(specialized.module)) == (multicast > 1)
    assert set(copies) == ({1} if multicast == 1 else {1, multicast}) or max(copies) == multicast


def test_kernels_without_roles_stay() -> None:
    plain = matmul(64, 64, 32)
    for expected in (
        WarpSpecializeOptions(),
        WarpSpecializeOptions(multicast=2),
        WarpSpecializeOptions(pingpong=True),
    ):
        narrow = matmul(64, 4, 32)
        specialized = warp_specialize(narrow, "matmul", expected)
        if not specialized.applied:
            assert specialized.module is narrow
    assert warp_specialize(plain, "matmul", WarpSpecializeOptions()).applied


def test_pingpong_is_of_instances_that_pass_nothing_on() -> None:
    math = run(
        matmul(64, 64, 32), f"{FRONT},persist,warp-specialize{{warps=4}},defer-wgmma-waits"
    ).module.functions
    member = alternate_instances(math["matmul.consumer"], 0)
    assert isinstance(member, Function)
    single = run(
        matmul(64, 64, 32), f"{FRONT},warp-specialize{{warps=4}},defer-wgmma-waits"
    ).module.functions
    refusal = alternate_instances(single["matmul.consumer"], 0)
    assert isinstance(refusal, Refusal)
    assert refusal.reason in (
        "no loop over instances is around the matmuls",
        "a computed value is carried to the next instance",
    )


def test_pingpong_is_of_instances_in_a_loop() -> None:
    text = """tir 1.0
stage "warp_specialized"

define private void @math(f16 addrspace(3)* %a, f16 addrspace(3)* %b, f32*<64, 8> %p) {
entry:
  %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, 0.0
  %y = gpu.wgmma_wait f32<64, 8> %x
  store %p, %y
  ret
}
"""
    instances = alternate_instances(parse(text).functions["math"], 0)
    assert instances == Refusal("no loop over instances is around the matmuls")


@pytest.mark.parametrize("persistent", [None, True, False])
def test_whether_a_block_works_for_many_instances(persistent: bool | None) -> None:
    expected = WarpSpecializeOptions(persistent=persistent is not False)
    module = warp_specialize(matmul(64, 64, 32), "matmul", expected).module
    assert ("persistent" in attributes(module)) == (persistent is not False)
    arguments = problem(70, 100, 40, False)
    grid = (4, 1, 1)
    if persistent is False:
        interpret(module, "matmul", grid, arguments)
        check(arguments, False)
        assert np.isfinite(arguments[2]).all()


@pytest.mark.parametrize("persistent", [None, True, False])
def test_options_of_the_compiler_reach_warp_specialization(persistent: bool | None) -> None:
    def specialize(name: str, options: Options) -> WarpSpecializeResult | None:
        machine, module = target(name), matmul(64, 64, 32)
        return _warp_specialize(module, "matmul", machine, options, machine.shared_bytes, None)

    result = specialize("sm_90a", Options(persistent=persistent))
    assert result is not None and result.applied
    assert ("persistent" in attributes(result.module)) == (persistent is not False)
    four_warps = specialize("sm_90a", Options(num_warps=4))
    assert four_warps is not None and four_warps.applied
    assert specialize("sm_90a", Options(warp_specialize=False)) is None
    assert specialize("sm_90", Options()) is None
