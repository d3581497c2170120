"""Launches on the GPU: `pytest tests/gpu/test_launch.py`. Torch is needed; CuPy, JAX and numba are
tried where they are installed."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tileir.backend
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.executors import jit
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.errors import LaunchError
from tileir.frontends import triton
from tileir.frontends.triton import language as tl
from tileir.textual import parse

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SIZE = 1000


@triton.jit
def axpy(x, y, n, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, tl.load(x + at, mask=inside) * by + tl.load(y + at, mask=inside), mask=inside)


AXPY = """tir 1.0
define kernel void @axpy(f32* %x, f32* %y, i32 %n, f32 %by) {
entry:
  %p = program_id i32
  %b = mul i32 %p, 256
  %s = splat i32<256> %b
  %r = make_range i32<256>
  %o = add i32<256> %s, %r
  %ns = splat i32<256> %n
  %in, _ = icmp (i1<256>, i1<256>) %o, %ns {predicate = slt}
  %xs = splat f32*<256> %x
  %px = getelementptr f32*<256> %xs, %o
  %v = load f32<256> %px, %in, 0.0
  %ys = splat f32*<256> %y
  %py = getelementptr f32*<256> %ys, %o
  %w = load f32<256> %py, %in, 0.0
  %f = splat f32<256> %by
  %m = fmul f32<256> %v, %f
  %a = fadd f32<256> %m, %w
  store %py, %a, %in
  ret
}
"""


@pytest.fixture
def kernel():
    return jit(parse(AXPY), cache=Cache(None))


def arrays(size=SIZE, dtype=None, device="cuda"):
    x = torch.arange(size, device=device).to(dtype or torch.float32)
    return x, torch.ones_like(x)


def grid(size=SIZE):
    return (-(-size // 256),)


def test_torch_through_a_module(kernel):
    x, y = arrays()
    for _ in range(5):
        kernel[grid()](x, y, SIZE, 2.0)
    assert torch.equal(y, 10 * x + 1)
    assert type(kernel._dispatcher.call).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_torch_through_tritons_python(dtype):
    x, y = arrays(100, dtype)
    x %= 16  # so that every sum is a number of 8 bits
    for _ in range(4):
        axpy[lambda meta: (-(-100 // meta["BLOCK"]),)](x, y, 100, 1.0, BLOCK=64)
    assert torch.equal(y, 4 * x + 1)


@pytest.mark.parametrize("offset", [0, 1, 2, 4])
def test_views_and_their_alignment(kernel, offset):
    x, y = arrays()
    for start in (offset, 0, offset):
        part = SIZE - 8
        kernel[grid(part)](x[start : start + part], y[start : start + part], part, 1.0)
    expected = torch.ones_like(x)
    for start in (offset, 0, offset):
        expected[start : start + part] += x[start : start + part]
    assert torch.equal(y, expected)


def test_parameters_and_subclasses_of_tensors(kernel):
    x, y = torch.nn.Parameter(arrays()[0]), arrays()[1]
    for _ in range(3):
        kernel[grid()](x.detach(), y, SIZE, 1.0)
        kernel[grid()](x, y, SIZE, 1.0)
    assert torch.equal(y, 6 * x.detach() + 1)


def test_launches_follow_torchs_stream(kernel):
    """A long wait on the stream, then the launch: what runs elsewhere would come first."""
    x, y = arrays()
    for _ in range(3):
        kernel[grid()](x, y, SIZE, 0.0)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        x.fill_(3.0)
        kernel[grid()](x, y, SIZE, 1.0)
    side.synchronize()
    assert torch.equal(y, torch.full_like(y, 4.0))
    torch.cuda._sleep(200_000_000)
    x.fill_(5.0)
    kernel[grid()](x, y, SIZE, 1.0, stream=torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 9.0))


@pytest.mark.parametrize("make", ["module", "triton"])
def test_a_captured_graph_replays(kernel, make):
    x, y = arrays()

    def launch():
        if make == "module":
            kernel[grid()](x, y, SIZE, 1.0)
        else:
            axpy[grid()](x, y, SIZE, 1.0, BLOCK=256)

    for _ in range(3):
        launch()
    y.fill_(0.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
        launch()
    assert not y.any()
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 10 * x)


class Interface:
    """What offers nothing but `__cuda_array_interface__`."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


class Exported:
    """What offers nothing but DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Exported, lambda t: t.data_ptr()])
def test_other_arrays(kernel, wrap):
    x, y = arrays()
    torch.cuda.synchronize()
    for _ in range(4):
        kernel[grid()](wrap(x), wrap(y), SIZE, 1.0)
    torch.cuda.synchronize()
    assert torch.equal(y, 4 * x + 1)


def test_cupy(kernel):
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(SIZE, dtype=cupy.float32), cupy.ones(SIZE, cupy.float32)
    for _ in range(4):
        kernel[grid()](x, y, SIZE, 1.0)
        axpy[grid()](x, y, SIZE, 1.0, BLOCK=256)
    cupy.testing.assert_array_equal(y, 8 * x + 1)
    with cupy.cuda.Stream() as stream:
        kernel[grid()](x, y, SIZE, 1.0)
        stream.synchronize()
    cupy.testing.assert_array_equal(y, 9 * x + 1)


def test_jax(kernel):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(SIZE, dtype=jax.numpy.float32)
    y = torch.ones(SIZE, device="cuda")
    for _ in range(4):
        kernel[grid()](x, y, SIZE, 1.0)
    np.testing.assert_array_equal(y.cpu().numpy(), 4 * np.asarray(x) + 1)
    x.delete()
    with pytest.raises(LaunchError, match="argument x"):
        kernel[grid()](x, y, SIZE, 1.0)


def test_numba(kernel):
    cuda = pytest.importorskip("numba.cuda")
    x, y = (cuda.to_device(np.ones(SIZE, np.float32)) for _ in range(2))
    for _ in range(4):
        kernel[grid()](x, y, SIZE, 1.0)
    np.testing.assert_array_equal(y.copy_to_host(), np.full(SIZE, 5, np.float32))


def test_what_does_not_fit_is_named(kernel):
    x, y = arrays()
    wrong = [
        ((x.half(), y, SIZE, 1.0), "argument x is an array of f16"),
        ((x.cpu(), y, SIZE, 1.0), "argument x is a tensor of the CPU"),
        ((np.ones(3, np.float32), y, SIZE, 1.0), "argument x"),
        ((x, y, 1.5, 1.0), "argument n must be an integer"),
        ((x, y, SIZE), "takes x, y, n, by"),
        ((0x10, y, SIZE, 1.0), "argument x is at 0x10, where no GPU has memory"),
    ]
    for _ in range(3):
        kernel[grid()](x, y, SIZE, 1.0)
        for arguments, message in wrong:
            with pytest.raises(LaunchError, match=message):
                kernel[grid()](*arguments)
    aligned = jit(parse(AXPY.replace("f32* %x", "f32* aligned(16) %x")), cache=Cache(None))
    for _ in range(3):
        aligned[grid()](x, y, SIZE, 1.0)
        with pytest.raises(LaunchError, match="is not a multiple of 16"):
            aligned[grid()](x[1:], y, 8, 1.0)


def test_memory_that_was_freed_is_detected(kernel):
    x, y = arrays()
    big = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    address = big.data_ptr()
    del big
    torch.cuda.empty_cache()
    with pytest.raises(LaunchError, match="where no GPU has memory: it was freed"):
        kernel[grid()](address, y, SIZE, 1.0)
    x.untyped_storage().resize_(0)
    with pytest.raises(LaunchError, match="argument x has no memory"):
        kernel[grid()](x, y, SIZE, 1.0)


def test_tables_are_filled_before_a_launch():
    text = """tir 1.0
constant i32<256> @table
global i32<256> @sums
define kernel void @k(i32* %y) {
entry:
  %r = make_range i32<256>
  %t = global_address i32 addrspace(4)* @table
  %ts = splat i32 addrspace(4)*<256> %t
  %pt = getelementptr i32 addrspace(4)*<256> %ts, %r
  %v = load i32<256> %pt
  %ys = splat i32*<256> %y
  %py = getelementptr i32*<256> %ys, %r
  store %py, %v
  ret
}
"""
    from tileir.backend import compile as compile_kernel
    from tileir.backend.driver.gpu import gpu_target

    kernel = LoadedKernel(compile_kernel(parse(text), gpu_target()))
    y = torch.zeros(256, dtype=torch.int32, device="cuda")
    for number in range(4):
        kernel.fill("table", np.arange(256, dtype=np.int32) * number)
        kernel[1](y)
        assert torch.equal(y.cpu(), torch.arange(256, dtype=torch.int32) * number)
    with pytest.raises(LaunchError, match="no global tables; there are: table"):
        kernel.fill("tables", np.zeros(256, np.int32))
    with pytest.raises(LaunchError, match="1024 bytes, and is to hold 12"):
        kernel.fill("table", np.zeros(3, np.int32))


def test_threads_launch_side_by_side(kernel):
    tensors = [arrays() for _ in range(8)]
    failed = []

    def work(x, y):
        try:
            for _ in range(200):
                kernel[grid()](x, y, SIZE, 1.0)
                axpy[grid()](x, y, SIZE, 1.0, BLOCK=256)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not failed
    for x, y in tensors:
        assert torch.equal(y, 400 * x + 1)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU on this machine")
def test_launches_go_to_the_gpu_of_their_arrays(kernel):
    pairs = [arrays(device=f"cuda:{i}") for i in range(2)]
    for _ in range(4):
        for x, y in pairs:
            kernel[grid()](x, y, SIZE, 1.0)
    for x, y in pairs:
        torch.cuda.synchronize(x.device)
        assert torch.equal(y, 4 * x + 1)
    with pytest.raises(LaunchError, match="arguments are on several GPUs"):
        kernel[grid()](pairs[0][0], pairs[1][1], SIZE, 1.0)


def test_the_next_process_compiles_nothing(tmp_path):
    script = """
import sys, torch
from tileir.textual import parse
from tileir.backend import jit
x, y = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda")
jit(parse(sys.argv[1]))[4](x, y, 1000, 1.0)
assert torch.equal(y, x + 1)
print(*sorted(m for m in sys.modules if m.startswith("llvmlite")))
"""
    environment = {**os.environ, "TILEIR_CACHE": str(tmp_path)}
    printed = [
        subprocess.run(
            [sys.executable, "-P", "-c", script, AXPY], env=environment, check=True, text=True,
            capture_output=True,
        ).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert printed[0] and not printed[1]


def test_processes_share_a_cache_and_launch(tmp_path):
    from tileir.testing.cache_stress import StressSettings, run

    report = run(StressSettings(tmp_path, kernels=6, processes=3, kills=2, gpu=True))
    assert not report.wrong, report.wrong


def test_machine_code_is_used():
    assert native_launcher.is_supported()


def test_machine_code_that_is_reassembled_says_what_it_needs():
    """The driver's cache, which nvJitLink would ask, forgets it."""
    first, reassembled = (tileir.backend.compile(parse(AXPY), "sm_90") for _ in range(2))
    assert first.metadata.registers == reassembled.metadata.registers > 0
