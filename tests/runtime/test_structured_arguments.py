"""Tuples, descriptors and constants as arguments: machine code launches what Python would, and
keeps calls apart whose parts differ."""

import collections

import pytest

from tileir.backend import executors as gpu_executor
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.array_protocols import StridedTensor
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.frontend_calls import FrontendKernels
from tileir.backend.runtime.jit import Jit
from tileir.errors import LaunchError
from tileir.frontends import triton
from tileir.frontends.triton import language as tl
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor
from tileir.textual import parse

from .machines import FakeMachine, Interface, TorchLike

pytestmark = pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)

Pair = collections.namedtuple("Pair", ("x", "y"))


@triton.jit
def add(several, z, BLOCK: tl.constexpr, NAME: tl.constexpr = "a"):
    at = tl.arange(0, BLOCK)
    value = tl.load(several[0] + at) + tl.load(several[1][0] + at) * several[1][1]
    tl.store(z + at, value)


@triton.jit
def copy(source, z, n):
    tl.store(z + tl.arange(0, 16), tl.sum(source.load([n, 0]), 0))


@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * 2, mask=at < n)


@pytest.fixture
def machine(monkeypatch):
    machine = FakeMachine()
    calls = FrontendKernels(machine, "sm_80", machine.load, Cache(None))
    monkeypatch.setattr(gpu_executor, "gpu_calls", lambda: calls)
    add._dispatch = copy._dispatch = scale._dispatch = None
    return machine


def repeat_launch(machine, launch, times=3):
    """The last launch of several, which machine code made."""
    for _ in range(times):
        launch()
    assert machine.launches[-1].native
    return machine.launches[-1]


def test_tuples_are_passed_by_items(machine):
    x, y, z = TorchLike(4096), TorchLike(8192), TorchLike(16384)
    first = repeat_launch(machine, lambda: add[1]((x, (y, 5)), z, BLOCK=16))
    assert first.words == (4096, 8192, 5, 16384)
    second = repeat_launch(machine, lambda: add[1]((z, (x, 7)), y, BLOCK=16), 1)
    assert second.words == (16384, 4096, 7, 8192) and second.handle == first.handle
    for other in (
        (x, (y, 16)), (x, (y, 1)), (TorchLike(4100), (y, 5)), (x, (TorchLike(4100), 5)),
        (x, (y, 5.0)), (x, (y, 1 << 40)), (x, Pair(y, 5)), Pair(x, (y, 5)),
    ):  # fmt: skip
        launch_record = repeat_launch(machine, lambda other=other: add[1](other, z, BLOCK=16), 2)
        assert (
            launch_record.handle != first.handle
            or isinstance(other, Pair)
            or Pair in map(type, other)
        )
    assert (
        repeat_launch(machine, lambda: add[1]((x, (y, 5)), z, BLOCK=16), 1).handle == first.handle
    )
    with pytest.raises(LaunchError):
        add[1]((x, (TorchLike(4096, cuda=False), 5)), z, BLOCK=16)


def test_tuples_of_other_lengths_are_other_calls(machine):
    x, y, z = TorchLike(4096), TorchLike(8192), TorchLike(16384)
    repeat_launch(machine, lambda: add[1]((x, (y, 5)), z, BLOCK=16))
    words = repeat_launch(machine, lambda: add[1]((x, (y, 5), y), z, BLOCK=16), 2).words
    assert words == (4096, 8192, 5, 8192, 16384)
    with pytest.raises(Exception, match="index"):
        add[1]((x,), z, BLOCK=16)


def test_a_grid_that_is_a_function_is_given_tuples(machine):
    x, y, z = TorchLike(4096), TorchLike(8192), TorchLike(16384)
    for n in (5, 6, 7):
        add[lambda meta: (meta["several"][1][1],)]((x, (y, n)), z, BLOCK=16)
    assert [launch.grid for launch in machine.launches] == [(5, 1, 1), (6, 1, 1), (7, 1, 1)]
    assert machine.launches[-1].native


def test_descriptors_are_passed_by_parts(machine):
    z = TorchLike(16384, shape=(16,))

    def descriptor(address=4096, shape=(32, 48), block=(16, 16), **more):
        return TensorDescriptor.from_tensor(TorchLike(address, shape=shape), block, **more)

    first = repeat_launch(machine, lambda: copy[1](descriptor(), z, 3))
    assert first.words == (4096, 32, 48, 48, 16384, 3)
    second = repeat_launch(machine, lambda: copy[1](descriptor(8192, (64, 80)), z, 5), 1)
    assert second.words == (8192, 64, 80, 80, 16384, 5) and second.handle == first.handle
    other = descriptor()
    other.block_shape = [8, 16]
    handles = {first.handle}
    for each in (other, descriptor(padding="nan"), descriptor(shape=(32, 40)), descriptor(4104)):
        handles.add(repeat_launch(machine, lambda each=each: copy[1](each, z, 3), 2).handle)
    assert len(handles) == 5
    assert repeat_launch(machine, lambda: copy[1](descriptor(), z, 3), 1).handle == first.handle
    assert repeat_launch(machine, lambda: copy[1](other, z, 3), 1).handle != first.handle


def test_descriptors_within_tuples(machine):
    x, z = TorchLike(4096, shape=(32, 48)), TorchLike(16384, shape=(16,))

    @triton.jit
    def copy_first(several, z, n):
        tl.store(z + tl.arange(0, 16), tl.sum(several[0].load([n, 0]), 0) + several[1])

    arguments = (TensorDescriptor.from_tensor(x, [16, 16]), 5.0)
    launch_record = repeat_launch(machine, lambda: copy_first[1](arguments, z, 3))
    assert launch_record.words[:4] == (4096, 32, 48, 48)


def test_constants_are_equal_by_value(machine):
    """Objects that are made for each call: strings, tuples of numbers, lists, floats."""
    x, y, z = TorchLike(4096), TorchLike(8192), TorchLike(16384)
    for make in (
        lambda: "".join(["n", "ame"]), lambda: (float("1"), *"t"), lambda: float("0.5"),
        lambda: (1, (2, 3)),
    ):  # fmt: skip
        repeat_launch(machine, lambda make=make: add[1]((x, (y, 5)), z, BLOCK=16, NAME=make()))
        before = len(machine.launches)
        for _ in range(4):
            add[1]((x, (y, 5)), z, BLOCK=16, NAME=make())
        assert all(launch.native for launch in machine.launches[before:])
    for one, other in (((1,), (True,)), ((1,), (1.0,)), (0.0, -0.0), ("a", "b"), ((1,), (1, 1))):
        repeat_launch(machine, lambda one=one: add[1]((x, (y, 5)), z, BLOCK=16, NAME=one), 2)
        add[1]((x, (y, 5)), z, BLOCK=16, NAME=other)
        assert not machine.launches[-1].native, (one, other)


def test_heuristics_take_the_way_of_the_kernel(machine):
    chosen = triton.heuristics({"BLOCK": lambda values: 16 if values["n"] > 10 else 32})(scale)
    for n in (5, 50, 7, 70, 9, 90):
        chosen[(2,)](TorchLike(), n)
    assert [launch.words for launch in machine.launches] == [
        (4096, n) for n in (5, 50, 7, 70, 9, 90)
    ]
    assert len(machine.kernels) == 2 and machine.launches[-1].native


DESCRIBED = """tir 1.0

define kernel void @copy(tensor_desc<f32<8, 16>> %from, f32* %to, i32 %n) {
entry:
  %x = descriptor_load f32<8, 16> %from, %n, i32 0
  ret
}
"""


def test_arrays_for_descriptors_are_passed_with_extents_and_strides():
    machine = FakeMachine()
    kernel = Jit(parse(DESCRIBED), target="sm_80", cache=Cache(None), place=machine.place)
    to = TorchLike(8192)
    for make, strides in (
        (lambda n: TorchLike(4096 * n, shape=(32, 16 * n)), lambda n: (16 * n, 1)),
        (lambda n: StridedTensor(4096 * n, (32, 16 * n), (64, 1)), lambda n: (64, 1)),
        (lambda n: Interface(4096 * n, shape=(32, 16 * n)), lambda n: (16 * n, 1)),
    ):
        for n in (1, 2, 3, 4):
            kernel[1](make(n), to, 7)
            expected = (4096 * n, 32, 16 * n, *strides(n), 8192, 7)
            assert machine.launches[-1].words == expected
        assert machine.launches[-1].native
    for make in (TorchLike, Interface):
        for _ in range(2):
            kernel[1](make(0, shape=(0, 16)), to, 7)
            assert machine.launches[-1].words == (0, 0, 16, 16, 1, 8192, 7)
        assert machine.launches[-1].native
        with pytest.raises(LaunchError, match="has no memory"):
            kernel[1](make(0, shape=(32, 16)), to, 7)
    with pytest.raises(LaunchError, match="dimensions"):
        kernel[1](TorchLike(4096, shape=(32, 16, 2)), to, 7)


@triton.jit
def divide(x, VALUES: tl.constexpr):
    at = tl.arange(0, 16)
    tl.store(x + at, 1.0 / (tl.load(x + at) * 0.0 + VALUES[0]))


@pytest.mark.parametrize("wrap", [lambda n: (n,), lambda n: ((n,)[0], 1)])
def test_zeros_of_both_signs_are_compiled_separately(wrap):
    plus, minus = (str(divide.warmup(TorchLike(), wrap(n), grid=1)) for n in (0.0, -0.0))
    assert plus != minus


def test_a_tuned_kernel_takes_the_way_of_the_kernel(machine):
    """Once a configuration is chosen; a grid that is a function is given its parameters."""
    configs = [triton.Config({"BLOCK": n}, num_warps=2) for n in (16, 32)]
    tuned = triton.autotune(configs, key=["n"])(scale)
    for n in (50, 60):
        tuned.cache[n, "torch.float32"] = configs[n == 60]
    for i in range(8):
        n = 50 + 10 * (i % 2)
        tuned[lambda meta: (meta["n"] // 10, meta["BLOCK"], meta["num_warps"])](TorchLike(), n)
        assert machine.launches[-1].words == (4096, n)
        assert machine.launches[-1].grid == (n // 10, 16 << (n == 60), 2)
    assert [launch.native for launch in machine.launches[-4:]] == [True] * 4
    assert tuned.best_config is configs[1] and len(machine.kernels) == 2


def test_configurations_are_benched_by_launches_of_the_kernel(machine):
    """What is timed is the launch alone: no module is loaded between two of them."""
    times = iter((2.0, 1.0))

    def bench(launch, quantiles):
        for _ in range(4):
            launch()
        return [next(times)] * 3

    configs = [triton.Config({"BLOCK": n}) for n in (16, 32)]
    tuned = triton.autotune(configs, key=["n"], do_bench=bench)(scale)
    tuned[(2,)](TorchLike(), 50)
    assert tuned.best_config is configs[1] and len(machine.kernels) == 2
    assert [launch.native for launch in machine.launches].count(True) >= 5


def test_arrays_that_are_seen_as_another_type(machine):
    x, n = TorchLike(4096, "int32"), 50
    first = repeat_launch(machine, lambda: scale[1](triton.reinterpret(x, tl.float32), n, BLOCK=16))
    other = TorchLike(8192, "int32")
    second = repeat_launch(
        machine, lambda: scale[1](triton.reinterpret(other, tl.float32), n, BLOCK=16), 1
    )
    assert (first.words, second.words) == ((4096, n), (8192, n)) and first.handle == second.handle
    for wrapped, same in (
        (triton.reinterpret(x, tl.float16), False), (x, False), (TorchLike(4096), True),
    ):  # fmt: skip
        launch_record = repeat_launch(
            machine, lambda wrapped=wrapped: scale[1](wrapped, n, BLOCK=16), 2
        )
        assert (launch_record.handle == first.handle) is same
    tensor = triton.reinterpret(TorchLike(4096, "int32", (32, 48)), tl.float32)
    descriptor = TensorDescriptor(tensor, (32, 48), (48, 1), [16, 16])
    launch_record = repeat_launch(
        machine, lambda: copy[1](descriptor, TorchLike(16384, shape=(16,)), 3)
    )
    assert launch_record.words == (4096, 32, 48, 48, 16384, 3)
