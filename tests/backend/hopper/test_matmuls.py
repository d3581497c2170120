"""Matmuls by warpgroups: the interpreter, the SIMT simulator and numpy agree, and the assembler
takes them without a warning or a spill."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.emit.matrix_descriptors import SmemMatrix
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.shadow import RaceError
from tileir.errors import CompileError
from tileir.interp import interpret
from tileir.machine import dtype_of
from tileir.testing.kernels import matmul
from tileir.textual import parse
from tileir.types import F8E4M3, F32

from .programs import WgmmaProgram

SMALL = [
    WgmmaProgram(64, 8, 16),
    WgmmaProgram(64, 8, 64, trans_b=True),
    WgmmaProgram(64, 16, 128),
    WgmmaProgram(64, 24, 32, trans_b=True),
    WgmmaProgram(64, 64, 64, trans_a=True),
    WgmmaProgram(64, 64, 32, trans_a=True, trans_b=True),
    WgmmaProgram(64, 64, 16, swizzles=(None, 1)),
    WgmmaProgram(64, 32, 64, swizzles=(2, 2)),
    WgmmaProgram(64, 32, 64, swizzles=(1, 2), trans_b=True),
    WgmmaProgram(64, 32, 32, swizzles=(1, 1), trans_a=True),
    WgmmaProgram(128, 32, 32),
    WgmmaProgram(128, 64, 32, warps=8),
    WgmmaProgram(128, 96, 32, warps=8, trans_a=True),
    WgmmaProgram(256, 32, 16, warps=8, trans_a=True),
    WgmmaProgram(64, 128, 16, warps=8),
    WgmmaProgram(64, 48, 32, warps=8, trans_b=True),
    WgmmaProgram(64, 200, 16, trans_b=True),
    WgmmaProgram(64, 512, 16, warps=8, iterations=1),
    WgmmaProgram(64, 72, 32, "bf16", trans_b=True),
    WgmmaProgram(64, 64, 64, "bf16"),
    WgmmaProgram(64, 64, 32, sum="f16"),
    WgmmaProgram(64, 40, 32, sum="f16", trans_b=True),
    WgmmaProgram(64, 32, 16, "f32", trans_b=True),
    WgmmaProgram(64, 16, 64, "f32", trans_b=True),
    WgmmaProgram(64, 32, 64, "f8e4m3", trans_b=True),
    WgmmaProgram(64, 32, 32, "f8e5m2", other="f8e4m3", trans_b=True),
    WgmmaProgram(64, 32, 128, "f8e4m3", sum="f16", trans_b=True),
    WgmmaProgram(64, 32, 64, "i8", sum="i32", trans_b=True),
    WgmmaProgram(64, 96, 32, "i8", sum="i32", trans_b=True, signed=(False, True)),
    WgmmaProgram(64, 24, 64, "i8", sum="i32", trans_b=True, signed=(False, False)),
    WgmmaProgram(64, 32, 64, registers=True),
    WgmmaProgram(128, 32, 64, "bf16", registers=True, trans_b=True),
    WgmmaProgram(128, 32, 32, "f32", registers=True, trans_b=True, warps=8),
    WgmmaProgram(64, 32, 64, "f8e4m3", registers=True, trans_b=True),
    WgmmaProgram(64, 32, 64, "i8", sum="i32", registers=True, trans_b=True),
    WgmmaProgram(64, 64, 64, registers=True, warps=8, trans_b=True),
    WgmmaProgram(64, 32, 128, "f8e4m3", trans_b=True, parts=2),
    WgmmaProgram(128, 32, 64, trans_a=True, parts=4, warps=8),
    WgmmaProgram(128, 32, 64, registers=True, parts=2),
]
LARGE = [
    WgmmaProgram(128, 256, 64, warps=8, iterations=1),
    WgmmaProgram(128, 256, 128, "bf16", warps=8, trans_b=True, iterations=1),
    WgmmaProgram(128, 256, 128, "f8e4m3", warps=8, trans_b=True, iterations=1),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("product", SMALL, ids=str)
def test_machines_agree(product: WgmmaProgram) -> None:
    module = product.module()
    arguments, expected = product.arguments(1)
    interpret(module, "product", 1, arguments)
    assert np.array_equal(arguments[2].astype(np.float64), expected)
    arguments[2][:] = 0
    SimtExecutor().launch(module, "product", 1, arguments, target="sm_90a", seed=3)
    assert np.array_equal(arguments[2].astype(np.float64), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("product", [*SMALL[::5], *LARGE], ids=str)
def test_the_assembler_has_nothing_to_say(product: WgmmaProgram) -> None:
    machine_code = compile_kernel(product.module(), "sm_90a").machine_code
    assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())


def test_the_host_makes_tensor_maps_without_roles() -> None:
    host = compile_kernel(SMALL[0].module(), "sm_90a").host
    assert host is not None and len(host.maps) == 2


IN_REGISTERS = WgmmaProgram(64, 32, 64, registers=True, iterations=3)


def test_registers_of_a_dot_are_its_own() -> None:
    """A value's registers may be written in the next iteration while the matmul reads its own."""
    text = compile_kernel(IN_REGISTERS.module(), "sm_90a").ptx
    (product,) = (line for line in text.splitlines() if "wgmma.mma_async" in line)
    assert product.index("mov.b32 f15") < product.index("wgmma.fence")
    assert "{f12, f13, f14, f15}" in product


LOOP = """tir 1.0
stage "warp_specialized"

define kernel void @rounds(f32* %p, i32 %n) {num_warps = 4} {
entry:
  %b = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 16, 8], swizzle = 0, panel = 8}
  gpu.local_store f16<16, 8> 1.0, %b, 0
  gpu.async_fence
  gpu.barrier
  br loop
loop:
  %i = phi i32 [0, entry], [%j, loop]
  %sum = phi f32<64, 8> [0.0, entry], [%y, loop]
  %f = sitofp f16 %i
  %a = splat f16<64, 16> %f
  %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %sum
  %y = gpu.wgmma_wait f32<64, 8> %x {pending = PENDING}
  %j = add i32 %i, 1
  %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
  cond_br %more, loop, done
done:
  %z = gpu.wgmma_wait f32<64, 8> %y
  %r = make_range i32<64>
  %r1 = expand_dims i32<64, 1> %r {axis = 1}
  %r2 = mul i32<64, 1> %r1, 8
  %r3 = broadcast i32<64, 8> %r2
  %q = make_range i32<8>
  %q1 = expand_dims i32<1, 8> %q {axis = 0}
  %q2 = broadcast i32<64, 8> %q1
  %o = add i32<64, 8> %r3, %q2
  %ps = splat f32*<64, 8> %p
  %pz = getelementptr f32*<64, 8> %ps, %o
  store %pz, %z
  ret
}
"""


@pytest.mark.parametrize("pending", (0, 1))
def test_no_iteration_begins_while_a_dot_reads_registers(pending: int) -> None:
    module = parse(LOOP.replace("PENDING", str(pending)))
    out = np.zeros(64 * 8, np.float32)

    def launch() -> None:
        SimtExecutor().launch(module, None, 1, [out, 4], target="sm_90a")

    if not pending:
        launch()
        assert (out == 96).all()
        return
    with pytest.raises(RaceError, match="begins an iteration while wgmma reads registers"):
        launch()


@pytest.mark.parametrize("product", LARGE[:1], ids=str)
def test_the_largest(product: WgmmaProgram) -> None:
    arguments, expected = product.arguments(2)
    SimtExecutor().launch(product.module(), "product", 1, arguments, target="sm_90a")
    assert np.array_equal(arguments[2].astype(np.float64), expected)


@pytest.mark.parametrize(
    ("product", "why"),
    [
        (WgmmaProgram(64, 32, 32, "f8e4m3"), "K contiguous"),
        (WgmmaProgram(64, 32, 32, "f32", trans_a=True, trans_b=True), "K contiguous"),
        (WgmmaProgram(96, 32, 32), "multiple of 64"),
        (WgmmaProgram(64, 32, 32, "bf16", sum="f16"), "no wgmma of bf16 and bf16 in f16"),
        (WgmmaProgram(64, 32, 32, "f16", other="bf16"), "no wgmma of f16 and bf16 in f32"),
        (WgmmaProgram(64, 32, 32, "i8", trans_b=True), "no wgmma of i8 and i8 in f32"),
        (WgmmaProgram(64, 64, 32, warps=8), "may begin at 32"),
        (WgmmaProgram(64, 32, 32, warps=2), "warpgroups"),
        (WgmmaProgram(64, 32, 64, swizzles=(None, 0)), "panels"),
        (WgmmaProgram(64, 20, 32, trans_b=True), "20 columns are not a multiple of 8"),
    ],
    ids=str,
)
def test_what_there_is_no_instruction_for(product: WgmmaProgram, why: str) -> None:
    with pytest.raises(CompileError, match=why) as caught:
        compile_kernel(product.module(), "sm_90a")
    assert caught.value.code == "TIR0706"


@pytest.mark.parametrize(
    ("line", "instead", "why"),
    [
        ("[1, 64, 32], swizzle = 2", "[1, 32, 64], swizzle = 2", r"stage of \(32, 64\) for a"),
        ("%b, 0, %sum", "%b, 0, %sum {trans_b = true}",
         "operands of 64x64 and 32x64 for accumulators of 64x32, and K a multiple of 16"),
        ("%as = gpu.tensor_map tensor_desc<f16<64, 64>> %pa, [i32 64, %wide], [%k, i64 1] "
         "{swizzle = 3}", "%as = make_descriptor tensor_desc<f16<64, 64>> %pa, [i32 64, %wide], "
         "[%k, i64 1]", "the descriptor must be the result of gpu.tensor_map"),
    ],
)  # fmt: skip
def test_stages_operands_and_descriptors_that_do_not_fit(line: str, instead: str, why: str) -> None:
    text = WgmmaProgram(64, 32, 64).text()
    assert text.count(line) == 1
    with pytest.raises(CompileError, match=why) as caught:
        compile_kernel(parse(text.replace(line, instead)), "sm_90a")
    assert caught.value.code == "TIR0706" and caught.value.location is not None


def test_a_copy_for_fewer_blocks_than_there_are() -> None:
    text = WgmmaProgram(64, 32, 64).text().replace("[1, 64, 64], swizzle", "[1, 128, 64], swizzle")
    line = "gpu.tma_load %as, %a, 0, %full, 0, 0, %i"
    assert text.count(line) == 1
    text = text.replace(line, f"{line} {{multicast = 2}}")
    text = text.replace("{num_warps = 4}", "{cluster = 4, num_warps = 4}")
    with pytest.raises(CompileError, match="the cluster has 4 blocks"):
        compile_kernel(parse(text), "sm_90a")


def test_other_targets_have_none() -> None:
    with pytest.raises(CompileError, match="sm_90 has no warpgroup matmuls"):
        compile_kernel(SMALL[0].module(), "sm_90")


_ALONG_K = WgmmaProgram(64, 32, 64, swizzles=(2, 2), trans_b=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("change", ["leading", "stride", "mode", "start"])
@pytest.mark.parametrize(
    "product",
    [WgmmaProgram(64, 128, 32), WgmmaProgram(64, 128, 64, trans_a=True), _ALONG_K],
    ids=str,
)
def test_wrong_descriptors_are_wrong(
    product: WgmmaProgram, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field that a layout depends on is read off the descriptor."""
    right = SmemMatrix.bits.fget  # type: ignore[attr-defined]
    ways = {"leading": 16 << 16, "stride": 8 << 32, "mode": 1 << 62, "start": 2}

    def wrong(self: SmemMatrix) -> int:
        spared = change == "leading" and self.k_contiguous and product is not _ALONG_K
        return right(self) ^ (0 if spared else ways[change])

    monkeypatch.setattr(SmemMatrix, "bits", property(wrong))
    arguments, expected = product.arguments(1)
    if change == "leading" and product is _ALONG_K:
        ways[change] = 0x40 << 16  # which nothing reads: the matmul stays right
    try:
        SimtExecutor().launch(product.module(), "product", 1, arguments, target="sm_90a")
    except AssertionError:
        return
    same = np.array_equal(arguments[2].astype(np.float64), expected)
    assert same == (change == "leading" and product is _ALONG_K)


@pytest.mark.sampled(3, by="warp_specialize")
@pytest.mark.parametrize("warp_specialize", (True, False))
@pytest.mark.parametrize(("imprecise", "parts"), [(128, 1), (100, 2), (64, 2), (40, 4), (31, 0)])
def test_few_steps_are_accumulated_imprecisely(
    imprecise: int, parts: int, warp_specialize: bool
) -> None:
    """The accumulators of 8-bit floats over some steps of K are added in f32; with less than one
    instruction's steps, `mma` multiplies."""
    module = matmul(64, 32, 128, F8E4M3, F32, F32, transposed=True, max_imprecise=imprecise)
    options = {"warp_specialize": warp_specialize, "num_warps": 4}
    ptx = compile_kernel(module, "sm_90a", options).ptx
    assert ptx.count("wgmma.commit_group") >= parts and ("wgmma" in ptx) == (parts > 0)
    random = np.random.default_rng(imprecise)
    m, n, k = 40, 24, 272
    a, b = (random.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (n, k)))
    out = np.full((m, n), np.nan, np.float32)
    stored = [x.astype(dtype_of(F8E4M3)) for x in (a, b)]
    SimtExecutor().launch(
        module, "matmul", (1,), [*stored, out, m, n, k], target="sm_90a", **options
    )
    np.testing.assert_array_equal(out, a @ b.T)
