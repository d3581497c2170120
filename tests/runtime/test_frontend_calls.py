"""Triton's kernels on the arrays of a GPU, through the executor that remembers calls."""

import pytest

from tileir.backend import executors as gpu_executor
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.frontend_calls import FrontendKernels
from tileir.builder import F32, I32, Builder, pointer
from tileir.errors import LaunchError
from tileir.executor import Done, KernelCall
from tileir.frontends import triton
from tileir.frontends.triton import language as tl

from .machines import FakeMachine, TorchLike


@triton.jit
def scale(x, y, n, by, stride, BLOCK: tl.constexpr, NAME: tl.constexpr = "a"):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at * stride, mask=at < n, other=0.0)
    tl.store(y + at * stride, value * by, mask=at < n)


@pytest.fixture
def machine(monkeypatch):
    machine = FakeMachine()
    calls = FrontendKernels(machine, "sm_80", machine.load, Cache(None))
    monkeypatch.setattr(gpu_executor, "gpu_calls", lambda: calls)
    scale._dispatch = None
    return machine


def test_a_kernel_is_compiled_once_for_each_kind_of_call(machine):
    x, y = TorchLike(), TorchLike(8192)
    for _ in range(4):
        scale[(7,)](x, y, 100, 2.0, 1, BLOCK=64)
        scale[lambda meta: (meta["n"] // meta["BLOCK"], meta["num_warps"])](
            x, y, 128, by=2.0, stride=3, BLOCK=64, num_warps=2
        )
        scale[3](x, y, 100, 2.0, 1, 128)
    assert len(machine.kernels) == 3
    assert [k.compiled.plan.num_warps for k in machine.kernels].count(2) >= 1
    one, two, three = machine.launches[-3:]
    assert (one.grid, two.grid, three.grid) == ((7, 1, 1), (2, 2, 1), (3, 1, 1))
    assert one.words[:3] == (4096, 8192, 100) and len(one.words) == 4  # the stride of 1 is gone
    assert two.words[2] == 128 and two.words[4] == 3
    assert all(launch.native for launch in machine.launches[-3:]) == native_launcher.is_supported()


def test_a_call_gives_the_compiled_kernel(machine):
    kernels = [scale[1](TorchLike(), TorchLike(), 5, 2.0, 1, BLOCK=64) for _ in range(4)]
    assert all(each is kernels[0] for each in kernels) and kernels[0].metadata.kernel == "scale"
    assert scale[(0,)](TorchLike(), TorchLike(), 5, 2.0, 1, BLOCK=64) is kernels[0]
    assert len(machine.launches) == 4


def test_constants_are_compared_as_wholes(machine):
    x = TorchLike()
    for name in ("a", "b", "a", "".join(["a"]), ("t", 1), ("t", 1), 1, True, 1.0):
        for _ in range(3):
            scale[1](x, x, 5, 2.0, 3, BLOCK=64, NAME=name)
    assert len({id(k.compiled) for k in machine.kernels}) == 1  # the name is not used
    for block in (64, 32, 64, 128):
        for _ in range(3):
            scale[1](x, x, 5, 2.0, 3, BLOCK=block)
    assert len({k.compiled.ptx for k in machine.kernels}) == 3


def test_integers_take_the_type_of_their_size(machine):
    x = TorchLike()
    kinds = [5, 1 << 40, 7, -(1 << 40), 1 << 31, 1 << 20]
    for _ in range(3):
        for n in kinds:
            scale[1](x, x, n, 2.0, 3, BLOCK=64)
            words = machine.launches[-1].words
            assert words[2] & 0xFFFFFFFF == n & 0xFFFFFFFF
    types = {k.compiled.plan.arguments[2] for k in machine.kernels}
    assert types == {"i32", "i64"}


ENDS = [
    0, 1, (1 << 31) - 1, -(1 << 31), 1 << 31, (1 << 32) - 1, 1 << 32, -(1 << 31) - 1, (1 << 63) - 1
]  # fmt: skip


@pytest.mark.parametrize("n", ENDS)
def test_integers_at_the_ends_of_their_types_are_recognised(machine, n):
    for _ in range(4):
        scale[1](TorchLike(), TorchLike(), n, 2.0, 3, BLOCK=64)
    word = machine.launches[0].words[2]
    assert [launch.words[2] for launch in machine.launches] == [word] * 4
    assert (
        machine.launches[-1].native == native_launcher.is_supported() and len(machine.kernels) == 1
    )


def test_a_call_that_was_carried_out_as_it_was_resolved_gives_what_that_gave(machine):
    calls = FrontendKernels(machine, "sm_80", machine.load, Cache(None))
    dispatch = calls.dispatch(lambda grid, arguments, named: Done((grid, arguments, named)), ())
    assert [dispatch.call((1,), 5, by=2) for _ in range(3)] == [((1,), (5,), {"by": 2})] * 3
    assert not machine.launches


def test_the_stream_of_a_call_is_kept(machine):
    for _ in range(3):
        scale[1](TorchLike(), TorchLike(), 5, 2.0, 3, BLOCK=64, stream=9)
    assert [launch.stream for launch in machine.launches] == [9] * 3


@pytest.mark.parametrize("elsewhere", ["array", "number"])
def test_arrays_that_no_argument_is_are_looked_at_every_time(machine, elsewhere):
    """What a call launches may be of other arrays than it is given, and of other numbers only
    where arguments are: machine code sees arguments alone."""
    b = Builder()
    with b.kernel("fill", x=pointer(F32), n=I32) as (x, n):
        (x + n).store(1.0)
    module, inputs = b.module(), [TorchLike(8192), 5]

    def resolve(grid, arguments, named):
        values = {"x": inputs[0], "n": arguments[0]}
        if elsewhere == "number":
            values = {"x": arguments[0], "n": inputs[1]}
        return KernelCall(module, "fill", values, {}, {}, frozenset("xn"))

    calls = FrontendKernels(machine, "sm_80", machine.load, Cache(None))
    dispatch = calls.dispatch(resolve, ("n" if elsewhere == "array" else "x",))
    for index in range(6):
        inputs[0] = TorchLike(8192 + 256 * index)
        argument = 3 if elsewhere == "array" else inputs[0]
        dispatch.call((1,), argument)
    assert [launch.words[0] for launch in machine.launches] == [8192 + 256 * i for i in range(6)]
    native_ones = sum(launch.native for launch in machine.launches)
    assert (native_ones > 0) == (native_launcher.is_supported() and elsewhere == "number")


def test_mistakes_are_named(machine):
    x = TorchLike()
    for _ in range(3):
        scale[1](x, x, 5, 2.0, 3, BLOCK=64)
        with pytest.raises(LaunchError, match=r"argument x is an array of torch\.complex64"):
            scale[1](TorchLike(name="complex64"), x, 5, 2.0, 3, BLOCK=64)
        with pytest.raises(LaunchError, match="scale: missing a required argument: 'BLOCK'"):
            scale[1](x, x, 5, 2.0, 3)
        with pytest.raises(LaunchError, match="tensor of the CPU"):
            scale[1](x, TorchLike(cuda=False), 5, 2.0, 3, BLOCK=64)


def test_benchmarks_wait_for_what_was_launched(monkeypatch):
    log = []

    class Gpu(gpu_executor.GpuExecutor):
        def wait(self):
            log.append("wait")

    monkeypatch.setattr(triton.testing, "executor", lambda _: Gpu())
    times = triton.testing.do_bench(
        lambda: log.append("launch"), warmup=0, rep=0.01, return_mode="all"
    )
    assert len(times) >= 1 and all(t >= 0 for t in times)
    timed = [word for word in log[4:] if word != "wait"]
    assert timed and log[-1] == "wait" and log[-2] == "launch"
