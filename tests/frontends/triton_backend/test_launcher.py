"""Launches of Triton's kernels by versions with tensor maps, on a machine that writes down what it
is asked to launch."""

import multiprocessing
import re
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from tests.backend.any_addressing.programs import Matmul
from tests.runtime.machines import FakeMachine, TorchLike
from tileir.backend import executors
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.frontend_calls import FrontendKernels
from tileir.builder import F16
from tileir.errors import Diagnostic, LaunchError
from tileir.frontends.triton_backend import launcher
from tileir.frontends.triton_backend.launcher import options_with_maps
from tileir.testing.attention import attention
from tileir_triton import hook
from tileir_triton.launching import TENSOR_MAPS

from .fakes import cuda_backend, install_fake, options
from .kernels import ADD, BLOCK_OF_8, DESCRIBED_MATMUL, MATMUL

GRID, STREAM, FUNCTION = (2, 3, 1), 7, 0x77


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory):
    """The cache of tileir that tests share: each kernel is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def new_cache(monkeypatch, triton, tmp_path):
    """A cache of tileir that has nothing."""
    monkeypatch.setenv("TILEIR_CACHE", str(tmp_path))


@pytest.fixture
def triton(monkeypatch, cache_folder):
    """A Triton with tileir's stages, whose kernels have handles."""
    monkeypatch.setenv("TILEIR_CACHE", str(cache_folder))
    install_fake(monkeypatch, "3.7.0", backend := cuda_backend())
    assert hook.install("1")
    backend().hash()
    yield SimpleNamespace(
        backend=backend, kernel=sys.modules["triton.compiler.compiler"].CompiledKernel
    )
    hook.uninstall()


@pytest.fixture
def machine(monkeypatch, triton):
    fake_machine = FakeMachine()
    calls = FrontendKernels(fake_machine, "sm_90a", fake_machine.load, Cache.usual())
    monkeypatch.setattr(executors, "gpu_calls", lambda: calls)
    return fake_machine


def compile_stage(triton, text, **changed):
    """The metadata of a kernel, which begin with its options, after the stage that tileir compiles
    it in."""
    metadata = {"hash": "h", "num_ctas": 1, **changed}
    triton.backend.make_ttgir(text, metadata, options(**{"num_warps": 8, **changed}), 90)
    return metadata


COMPILED = {}
"""What `compile_stage` made, by text and options: tests of launches compile a kernel once."""


def build(triton, text, signature, rebuild=False, **changed):
    """A kernel of Triton's, loaded, and what its own launcher launched; compiled `again` where what
    compiling does besides is tested."""
    key = text, *sorted(changed.items())
    metadata = None if rebuild else COMPILED.get(key)
    if metadata is None:
        metadata = compile_stage(triton, text, **changed)
    if not rebuild:
        COMPILED[key] = metadata
    kernel = triton.kernel(SimpleNamespace(**metadata))
    kernel.asm, kernel.src = {"ttir": text}, SimpleNamespace(signature=signature)
    kernel._init_handles()
    return kernel


AS_MANY_STAGES_AS_FIT = {
    "num_warps": 8, "num_stages": 3, "ring_stages": 8, "non_tma_variants": False,
}  # fmt: skip
CONCURRENT_BLOCKS = {
    "num_warps": 4, "num_stages": 3, "ring_stages": 3, "persistent": False,
    "non_tma_variants": False,
}  # fmt: skip
ALTERNATING = {**AS_MANY_STAGES_AS_FIT, "num_warps": 4, "pingpong": True}

MATMUL_TYPES = {
    **dict.fromkeys("abc", "*fp16"), **dict.fromkeys("mnk", "i32"),
    **dict.fromkeys("ABN", "constexpr"),
}  # fmt: skip


def matmul_arguments():
    arrays = [TorchLike(4096 * (i + 1), "float16", (256, 256)) for i in range(3)]
    return (*arrays, 256, 256, 256, 128, 64, 256)


def launch(kernel, arguments, enter=None):
    kernel._run(*GRID, STREAM, FUNCTION, (), None, enter, None, *arguments)


class HookChain:
    """Hooks as Triton 3.5 and later pass them: a chain, even of none."""

    def __init__(self, *calls):
        self.calls = list(calls)


def test_a_matmul_is_launched_with_tensor_maps(triton, machine):
    kernel = build(triton, MATMUL, MATMUL_TYPES)
    assert getattr(kernel.metadata, TENSOR_MAPS) == AS_MANY_STAGES_AS_FIT
    for _ in range(3):
        launch(kernel, matmul_arguments())
    assert not kernel.launched
    assert [(each.grid, each.stream) for each in machine.launches] == [(GRID, STREAM)] * 3
    (loaded,) = machine.kernels
    assert loaded.compiled.host is not None
    assert "cp.async.bulk.tensor" in loaded.compiled.ptx


@pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)
def test_machine_code_repeats_a_launch_with_an_array_without_elements(triton, machine):
    """Programs pass one for an optional input that the kernel does not read."""
    text = MATMUL.replace("%m: i32", "%z: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %m: i32", 1)
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "z": "*i32", **MATMUL_TYPES}
    kernel, arguments = build(triton, text, types), matmul_arguments()
    empty = TorchLike(0, "int32", (1, 0))
    for _ in range(4):
        launch(kernel, (*arguments[:3], empty, *arguments[3:]))
    assert not kernel.launched
    assert [each.native for each in machine.launches] == [False, False, True, True]
    assert {each.words[3:5] for each in machine.launches} == {(0, 256)}


class Recording(TorchLike):
    """A tensor that records which attributes are read."""

    read: ClassVar[list[str]] = []

    def __getattribute__(self, name):
        Recording.read.append(name)
        return super().__getattribute__(name)


@pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)
def test_a_repeated_launch_reads_addresses_alone(triton, machine):
    """Triton has looked at the element types: kernels for others are other kernels."""
    kernel = build(triton, MATMUL, MATMUL_TYPES)
    arrays = [Recording(4096 * (i + 1), "float16", (256, 256)) for i in range(3)]
    arguments = (*arrays, *matmul_arguments()[3:])
    for _ in range(3):
        launch(kernel, arguments)
    Recording.read.clear()
    launch(kernel, arguments)
    assert machine.launches[-1].native
    assert Recording.read == ["is_cuda", "address"] * 3


def test_a_process_that_compiles_for_others_puts_the_version_into_the_cache(
    triton, machine, new_cache, monkeypatch
):
    monkeypatch.setattr(multiprocessing.process, "parent_process", object)
    kernel = build(triton, MATMUL, MATMUL_TYPES, rebuild=True)
    monkeypatch.setattr(Cache.usual(), "make", fail_to_compile)
    launch(kernel, matmul_arguments())
    assert len(machine.launches) == 1


def test_a_process_that_launches_compiles_the_version_then(triton, machine, new_cache, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Cache.usual(), "make", fail_to_compile)
        kernel = build(triton, MATMUL, MATMUL_TYPES, rebuild=True)
    launch(kernel, matmul_arguments())
    assert len(machine.launches) == 1


def fail_to_compile(*_, **__):
    raise AssertionError("a version is compiled")


@pytest.mark.parametrize("hook", [None, HookChain()])
def test_no_hooks_are_no_obstacle(triton, machine, hook):
    kernel = build(triton, MATMUL, MATMUL_TYPES)
    launch(kernel, matmul_arguments(), enter=hook)
    assert len(machine.launches) == 1
    assert not kernel.launched


@pytest.mark.parametrize("hook", [print, HookChain(print)])
def test_profilers_see_tritons_launch(triton, machine, hook):
    kernel = build(triton, MATMUL, MATMUL_TYPES)
    launch(kernel, matmul_arguments(), enter=hook)
    assert not machine.launches
    (launched,) = kernel.launched
    assert launched[:5] == (*GRID, STREAM, FUNCTION)
    assert len(launched) == 9 + 9


def test_what_fails_once_is_tritons_from_then_on(triton, machine):
    kernel = build(triton, MATMUL, MATMUL_TYPES)
    machine.fails = 1
    launch(kernel, matmul_arguments())
    machine.fails = 0
    launch(kernel, matmul_arguments())
    assert len(kernel.launched) == 2
    assert not machine.launches


def test_without_a_driver_triton_launches(triton, monkeypatch):
    kernel = build(triton, MATMUL, MATMUL_TYPES)

    def none():
        raise LaunchError(Diagnostic("TIR0711", "no driver"))

    monkeypatch.setattr(executors, "gpu_calls", none)
    launch(kernel, matmul_arguments())
    assert len(kernel.launched) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "signature", "changed"),
    [
        (ADD, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {}),
        (MATMUL, MATMUL_TYPES, {"launch_pdl": True}),
        (MATMUL, MATMUL_TYPES, {"launch_cooperative_grid": True}),
        (MATMUL, MATMUL_TYPES, {"maxnreg": 240}),
        (MATMUL, {"t": "('*fp16', '*fp16')", **MATMUL_TYPES}, {}),
        (MATMUL, None, {}),
    ],
    ids=["no dots", "dependent", "cooperative", "registers", "tuple", "no source"],
)
def test_other_kernels_keep_tritons_launcher(triton, machine, text, signature, changed):
    kernel = build(triton, text, signature, **changed)
    assert kernel._run == kernel.launched.append_call


@pytest.mark.parametrize(("blocks", "maps"), [(7, False), (8, True)])
def test_short_loops_keep_tritons_launcher(triton, machine, blocks, maps):
    text = MATMUL.replace("to %k step", "to %last step").replace(
        "    %c64_i32 =", f"    %last = arith.constant {64 * blocks} : i32\n    %c64_i32 ="
    )
    kernel = build(triton, text, MATMUL_TYPES)
    assert bool(getattr(kernel.metadata, TENSOR_MAPS)) == maps


def test_dots_outside_of_loops_keep_tritons_launcher(triton, machine):
    """The dot is in the loop, and once more after it."""
    line = next(line for line in MATMUL.splitlines() if " tt.dot " in line)
    result, a, b, acc = re.findall(r"%\w+", line)
    repeated = line.replace(result, "%last").replace(f"{a}, {b}, {acc}", "%cst_0, %cst, %acc_1")
    text = MATMUL.replace("    %29 = ", f"{repeated}\n    %29 = ")
    kernel = build(triton, text.replace("truncf %acc_1", "truncf %last"), MATMUL_TYPES)
    assert getattr(kernel.metadata, TENSOR_MAPS) == {}


def with_return(text):
    """With instances that store nothing."""
    start = "%0 = tt.get_program_id x : i32"
    return text.replace(
        start,
        f"""{start}
    %returns = arith.cmpi sgt, %0, %n : i32
    cf.cond_br %returns, ^bb1, ^bb2
  ^bb1:
    tt.return
  ^bb2:""",
    )


def test_instances_that_return_early_keep_tritons_launcher(triton, machine):
    """A block works for a fixed part of the instances, so blocks would differ in their work."""
    assert with_return(MATMUL) != MATMUL
    kernel = build(triton, with_return(MATMUL), MATMUL_TYPES)
    assert kernel.metadata.compiled_by.startswith("tileir")
    assert getattr(kernel.metadata, TENSOR_MAPS) == {}


def resize_tiles(text, extent, less):
    """A matmul whose tiles have `less` rows or columns in place of `extent`."""
    return re.sub(rf"(?<![c\d]){extent}(?!\d)", str(less), text)


@pytest.mark.parametrize(("extent", "less"), [(128, 32), (256, 64)], ids=["rows", "columns"])
def test_small_tiles_keep_tritons_launcher(triton, machine, extent, less):
    kernel = build(triton, resize_tiles(MATMUL, extent, less), MATMUL_TYPES)
    assert kernel.metadata.compiled_by.startswith("tileir")
    assert getattr(kernel.metadata, TENSOR_MAPS) == {}


@pytest.mark.parametrize("warps", [4, 8])
def test_two_warpgroups_alternate_tiles_of_64_rows(triton, machine, warps):
    """4 stages of 40 KiB, next to the buffers of results of each warpgroup. Where one tensor has no
    map, as with a stride of 0, no threads of this version read it: the fallback is faster."""
    kernel = build(triton, resize_tiles(MATMUL, 128, 64), MATMUL_TYPES, num_warps=warps)
    assert getattr(kernel.metadata, TENSOR_MAPS) == ALTERNATING
    launch(kernel, matmul_arguments())
    (loaded,) = machine.kernels
    assert loaded.compiled.plan.num_warps == 12
    assert 4 * (40 << 10) < loaded.compiled.plan.shared < 5 * (40 << 10) + 4096
    assert "cp.async.bulk" not in loaded.compiled.fallback.ptx
    assert loaded.compiled.non_tma_variant((0, 2, 0, 0, 0, 0)) is None


@pytest.mark.parametrize(("along_k", "maps"), [((True, False), ALTERNATING), ((True, True), {})])
def test_tiles_of_64_rows_are_copied_by_lines(along_k, maps):
    """Blocks of 32 elements along K have rows of half a line, if both operands are along K."""
    module = Matmul(F16, (64, 256, 32), along_k).module(multiple=16)
    chosen = {"num_warps": 4, "num_stages": 3}
    assert launcher.options_with_maps(module, "matmul", chosen, "sm_90a") == maps


@pytest.mark.parametrize("warps", [4, 8])
def test_square_tiles_are_multiplied_by_two_warpgroups_from_all_of_shared_memory(
    triton, machine, warps
):
    """6 stages of 32 KiB, although the launch asks for 3, next to the buffers of results."""
    kernel = build(triton, resize_tiles(MATMUL, 256, 128), MATMUL_TYPES, num_warps=warps)
    assert getattr(kernel.metadata, TENSOR_MAPS) == AS_MANY_STAGES_AS_FIT
    launch(kernel, matmul_arguments())
    (loaded,) = machine.kernels
    assert loaded.compiled.plan.num_warps == 12
    assert 6 * (32 << 10) < loaded.compiled.plan.shared < 7 * (32 << 10) + 4096
    fallback = loaded.compiled.fallback
    assert "cp.async.bulk" not in fallback.ptx and fallback.plan.shared == 3 * (32 << 10)


def remove_divisors(text):
    """With rows of which Triton knows no divisor."""
    return re.sub(r"(%k: i32) \{[^}]*\}", r"\1", text)


def scale_accumulator(text):
    """With the sum scaled in every iteration."""
    dot = next(line for line in text.splitlines() if " tt.dot " in line)
    result = dot.split()[0]
    half = f"{result} = arith.addf %half, %half : tensor<128x128xf32>"
    new = dot.replace(f"{result} =", "%half =", 1)
    return text.replace(dot, f"{new}\n      {half}")


def with_scaled_dots(text):
    """With each matmul scaled before it is added."""
    dot = next(line for line in text.splitlines() if " tt.dot " in line)
    result, _, _, total = re.findall(r"%\w+", dot)[:4]
    zeros = "arith.constant dense<0.0> : tensor<128x128xf32>"
    product = dot.replace(f"{result} =", "%product =", 1).replace(total, "%zeros")
    twice = "%twice = arith.addf %product, %product : tensor<128x128xf32>"
    add = f"{result} = arith.addf {total}, %twice : tensor<128x128xf32>"
    return text.replace(dot, f"      %zeros = {zeros}\n{product}\n      {twice}\n      {add}")


SCATTERED = """%place = arith.muli %9, %y_23 : tensor<128xi32>
      %first = tt.splat %a : !tt.ptr<f16> -> tensor<128x!tt.ptr<f16>>
      %at = tt.addptr %first, %place : tensor<128x!tt.ptr<f16>>, tensor<128xi32>
      %found = tt.load %at : tensor<128x!tt.ptr<f16>>
      %wide = arith.extf %found : tensor<128xf16> to tensor<128xf32>
      %row = tt.expand_dims %wide {axis = 0 : i32} : tensor<128xf32> -> tensor<1x128xf32>
      %factor = tt.broadcast %row : tensor<1x128xf32> -> tensor<128x128xf32>
      %twice = arith.mulf %product, %factor : tensor<128x128xf32>"""


def scaled_by_scattered_elements(text):
    """With a scale for each column of a dot, no two of them side by side in memory."""
    changed = with_scaled_dots(text)
    twice = "%twice = arith.addf %product, %product : tensor<128x128xf32>"
    return changed.replace(twice, SCATTERED)


def at_loaded_places(text):
    """With blocks of K in an order that is read from memory."""
    begin = "tt.splat %start : i32 -> tensor<64xi32>"
    loaded = """tt.bitcast %a : !tt.ptr<f16> -> !tt.ptr<i32>
      %word = tt.addptr %words, %start : !tt.ptr<i32>, i32
      %block = tt.load %word : !tt.ptr<i32>
      %place = arith.muli %block, %c64_i32 : i32
      %x_5 = """
    return text.replace(f"%x_5 = {begin}", f"%words = {loaded}{begin.replace('start', 'place')}")


@pytest.mark.parametrize(
    "change", [remove_divisors, scale_accumulator, scaled_by_scattered_elements, at_loaded_places]
)
def test_square_tiles_that_do_not_stream_keep_tritons_launcher(triton, machine, change):
    """Where threads may have to copy rows, each matmul is waited for, threads have an address for
    each column, or copies wait for loads."""
    assert change(MATMUL) != MATMUL
    kernel = build(triton, change(resize_tiles(MATMUL, 256, 128)), MATMUL_TYPES)
    assert kernel.metadata.compiled_by.startswith("tileir")
    assert getattr(kernel.metadata, TENSOR_MAPS) == {}


def of_64_rows(columns):
    """A matmul of tiles of 64 rows, each dot of which is scaled before it is added."""
    text = resize_tiles(resize_tiles(MATMUL, 128, 64), 256, columns)
    return with_scaled_dots(text).replace("128x128xf32", f"64x{columns}xf32")


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("columns", [32, 64])
def test_blocks_of_small_scaled_dots_share_a_processor(triton, machine, columns, warps):
    """As many stages as the launch asks for, and one warp that copies: four blocks are resident."""
    kernel = build(triton, of_64_rows(columns), MATMUL_TYPES, num_warps=warps)
    assert getattr(kernel.metadata, TENSOR_MAPS) == CONCURRENT_BLOCKS
    launch(kernel, matmul_arguments())
    (loaded,) = machine.kernels
    plan, code = loaded.compiled.plan, loaded.compiled.machine_code
    assert (plan.num_warps, code.spills) == (5, 0)
    assert 3 * (12 << 10) < plan.shared < 3 * (16 << 10) + (8 << 10) + 1024
    assert 4 * 160 * code.registers <= 65536


@pytest.mark.parametrize("change", [with_return, at_loaded_places, remove_divisors])
def test_small_scaled_dots_that_do_not_stream_keep_tritons_launcher(triton, machine, change):
    assert change(MATMUL) != MATMUL
    for columns, changed in ((64, change(of_64_rows(64))), (128, of_64_rows(128))):
        kernel = build(triton, changed, MATMUL_TYPES)
        assert getattr(kernel.metadata, TENSOR_MAPS) == {}, columns


def test_square_tiles_of_scaled_dots_have_tensor_maps(triton, machine):
    """Registers hold two accumulators, and no other block."""
    text = with_scaled_dots(resize_tiles(MATMUL, 256, 128))
    kernel = build(triton, text, MATMUL_TYPES)
    assert getattr(kernel.metadata, TENSOR_MAPS) == AS_MANY_STAGES_AS_FIT
    launch(kernel, matmul_arguments())
    (loaded,) = machine.kernels
    assert loaded.compiled.plan.num_warps == 12


def test_wide_tiles_that_do_not_stream_have_the_stages_of_the_launch(triton, machine):
    kernel = build(triton, remove_divisors(MATMUL), MATMUL_TYPES)
    assert getattr(kernel.metadata, TENSOR_MAPS) == {"num_warps": 8, "num_stages": 3}


@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize("width, causal", [(64, True), (128, False)])
def test_chained_dots_are_computed_by_two_warpgroups(warps, width, causal):
    """Attention with the stages of the launch."""
    passed = {"num_warps": warps, "num_stages": 3}
    module = attention(128, 64, width, causal=causal)
    chosen = options_with_maps(module, "attention", passed, "sm_90a")
    assert chosen == {"num_warps": max(warps, 8), "num_stages": 3}


@pytest.mark.parametrize("warps, maps", [(2, True), (4, False), (8, True)])
def test_chained_dots_of_equal_work_share_processors(warps, maps):
    """An accumulator of 128 x 32 numbers takes 64 registers of each thread of 2 warps, and sums of
    rows take more."""
    passed = {"num_warps": warps, "num_stages": 3}
    chosen = options_with_maps(attention(128, 64, 32), "attention", passed, "sm_90a")
    assert bool(chosen) == maps


def test_a_launch_with_one_stage_gets_two():
    passed = {"num_warps": 8, "num_stages": 1}
    chosen = options_with_maps(attention(128, 64, 64), "attention", passed, "sm_90a")
    assert chosen == {**passed, "ring_stages": 2}


def test_no_maps_keeps_tritons_launcher(triton):
    hook.install("no-maps")
    kernel = build(triton, MATMUL, MATMUL_TYPES, rebuild=True)
    assert getattr(kernel.metadata, TENSOR_MAPS) == {}
    assert kernel._run == kernel.launched.append_call
    hook.install("1")


class TensorDescriptor:
    """As Triton's."""

    def __init__(self, base, shape, padding="zero"):
        self.base, self.shape, self.padding = base, list(shape), padding
        self.strides = [1]
        for extent in reversed(self.shape[1:]):
            self.strides.insert(0, self.strides[0] * extent)


DESCRIBED_TYPES = {
    "a": "tensordesc<fp16[128, 64]>", "b": "tensordesc<fp16[64, 256]>",
    "c": "tensordesc<fp16[128, 256]>", **dict.fromkeys("mnk", "i32"),
    **dict.fromkeys("ABN", "constexpr"),
}  # fmt: skip


def descriptor_arguments(m, n, k, padding="zero"):
    """Arguments of `DESCRIBED_MATMUL`."""
    shapes = ((m, k), (k, n), (m, n))
    descriptors = (
        TensorDescriptor(TorchLike(4096 * (i + 1), "float16", shape), shape, padding)
        for i, shape in enumerate(shapes)
    )
    return (*descriptors, m, n, k, 128, 64, 256)


@pytest.mark.parametrize("num_ctas", [1, 2])
def test_a_matmul_of_descriptors_is_launched_with_tensor_maps(triton, machine, num_ctas):
    """One block is launched for an instance, also where Triton's launcher starts a cluster."""
    warps = {"num_warps": 8 // num_ctas, "num_ctas": num_ctas}
    kernel = build(triton, DESCRIBED_MATMUL, DESCRIBED_TYPES, **warps)
    assert getattr(kernel.metadata, TENSOR_MAPS) == AS_MANY_STAGES_AS_FIT
    for _ in range(3):
        launch(kernel, descriptor_arguments(256, 512, 1024))
    assert not kernel.launched
    (loaded,) = machine.kernels
    assert "cp.async.bulk.tensor" in loaded.compiled.ptx
    first, *others = machine.launches
    numbers = (4096, 256, 1024, 1024, 1, 8192, 1024, 512, 512, 1, 12288, 256, 512, 512, 1)
    assert first.words == (*numbers, 256, 512, 1024)
    assert loaded.compiled.plan.cluster == (1, 1, 1)
    assert [each.words for each in others] == [first.words] * 2


def small(text):
    """With tiles of 64 x 64 x 64, which have no version with tensor maps."""
    return re.sub(r"(?<![c\d])(128|256)(?!\d)", "64", text)


def test_rows_of_whole_vectors_have_a_version(triton, machine):
    """Whatever comes first: asynchronous copies where the extents are multiples of 16."""
    kernel = build(triton, small(DESCRIBED_MATMUL), DESCRIBED_TYPES)
    assert getattr(kernel.metadata, TENSOR_MAPS)["warp_specialize"] is False
    for n in (328, 336, 328, 336):
        launch(kernel, descriptor_arguments(256, n, 1024))
    assert not kernel.launched
    assert len(machine.kernels) == 2
    handles = [each.handle for each in machine.launches]
    assert handles[0] == handles[2] != handles[1] == handles[3]
    copies = [k.compiled.ptx.count("cp.async.cg") for k in machine.kernels]
    assert copies[0] < copies[1]


def two_results():
    """`DESCRIBED_MATMUL` with tiles of 128 x 128 x 128, and a second result, of f32: shared memory
    holds three stages of the operands, or two and the results."""
    text = re.sub(r"(\D[x<])(64|256)(?=[x>])|(?<=x)(64|256)(?=xf)", r"\g<1>128", DESCRIBED_MATMUL)
    text = text.replace("c64_i32 = arith.constant 64", "c64_i32 = arith.constant 128")
    text = text.replace("c256_i32 = arith.constant 256", "c256_i32 = arith.constant 128")
    parameter = "%d: !tt.tensordesc<tensor<128x128xf32>>, %d0: i32, %d1: i32, %d2: i64, %d3: i64"
    text = text.replace("%m: i32", f"{parameter}, %m: i32")
    store = "    tt.descriptor_store %d[%1, %3], %acc_12 : {0}, tensor<128x128xf32>\n    tt.return"
    return text.replace("    tt.return", store.format("!tt.tensordesc<tensor<128x128xf32>>"))


@pytest.mark.parametrize(("n", "wide"), [(512, True), (520, False)])
def test_results_that_threads_store_are_whole_vectors(triton, machine, n, wide):
    """Next to copies by tensor maps, where the last extent is a multiple of 16."""
    kinds = {"d": "tensordesc<fp32[128, 128]>", **dict.fromkeys("mnk", "i32")}
    for name in "abc":
        kinds[name] = "tensordesc<fp16[128, 128]>"
    kernel = build(triton, two_results(), {name: kinds[name] for name in "abcdmnk"})
    a, b, c, *numbers = descriptor_arguments(256, n, 1024)[:6]
    d = TensorDescriptor(TorchLike(16384, "float32", (256, n)), (256, n))
    launch(kernel, (a, b, c, d, *numbers))
    (loaded,) = machine.kernels
    stores = re.findall(r"st\.global\S*", loaded.compiled.ptx)
    assert "cp.async.bulk.tensor" in loaded.compiled.ptx
    assert stores and all(".v4" in x for x in stores) == wide


@pytest.mark.parametrize("fused", [True, False])
def test_every_version_is_fused_as_the_options_say(triton, machine, fused):
    scaled = "    %scaled = arith.mulf %acc_12, %acc_12 : tensor<128x256xf32>\n"
    moved = "    %moved = arith.addf %scaled, %acc_12 : tensor<128x256xf32>\n"
    last = "    %4 = arith.truncf "
    text = DESCRIBED_MATMUL.replace(f"{last}%acc_12", f"{scaled}{moved}{last}%moved")
    for each in (text, small(text)):
        kernel = build(triton, each, DESCRIBED_TYPES, enable_fp_fusion=fused)
        launch(kernel, descriptor_arguments(256, 336, 1024))
        assert not kernel.launched
    assert len(machine.kernels) == 2
    assert all(("fma.rn.f32" in k.compiled.ptx) == fused for k in machine.kernels)


def test_a_limit_of_registers_is_that_of_every_version(triton, machine):
    """Also of tiles that would have tensor maps: warps with roles have registers of their own."""
    for text in (small(DESCRIBED_MATMUL), DESCRIBED_MATMUL):
        kernel = build(triton, text, DESCRIBED_TYPES, maxnreg=224)
        assert kernel.metadata.compiled_by.startswith("tileir")
        for n in (328, 336):
            launch(kernel, descriptor_arguments(256, n, 1024))
        assert not kernel.launched
    assert len(machine.kernels) == 4
    assert all(".maxnreg 224" in k.compiled.ptx for k in machine.kernels)
    assert not any("cp.async.bulk.tensor" in k.compiled.ptx for k in machine.kernels)


def test_each_padding_has_a_version(triton, machine):
    kernel = build(triton, small(DESCRIBED_MATMUL), DESCRIBED_TYPES)
    for padding in ("zero", "nan", "nan", "zero"):
        launch(kernel, descriptor_arguments(256, 336, 1024, padding))
    assert not kernel.launched
    first, *between, last = [each.handle for each in machine.launches]
    assert first == last
    assert len(machine.kernels) == 2
    assert len({*between}) == 1 and between[0] != first


def test_nan_as_padding_is_tileirs_launch_with_hooks_too(triton, machine):
    kernel = build(triton, BLOCK_OF_8, {"d": "tensordesc<fp32[4, 8]>", "y": "*fp32"})
    base, y, called = TorchLike(4096, "float32", (3, 8)), TorchLike(8192), []
    for padding in ("zero", "nan", "zero"):
        launch(kernel, (TensorDescriptor(base, (3, 8), padding), y), enter=called.append)
    assert len(kernel.launched) == 2
    assert called == [None]
    (loaded,) = machine.kernels
    assert "0x7FC00000" in loaded.compiled.ptx.upper().replace("0X", "0x") or (
        "2143289344" in loaded.compiled.ptx
    )


def test_nan_as_padding_is_never_tritons_launch(triton, machine):
    kernel = build(triton, BLOCK_OF_8, {"d": "tensordesc<fp32[4, 8]>", "y": "*fp32"})
    base, y = TorchLike(4096, "float32", (3, 8)), TorchLike(8192)
    machine.fails = 1
    with pytest.raises(LaunchError):
        launch(kernel, (TensorDescriptor(base, (3, 8), "nan"), y))
    assert not kernel.launched
