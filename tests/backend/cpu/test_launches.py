"""What cannot be launched on the CPU is an error that says so."""

import numpy as np
import pytest

from tileir.builder import F32, I64, Builder, pointer
from tileir.errors import LaunchError
from tileir.executor import executor


def launch(grid, on="cpu", **changes):
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I64) as (x, n):
        x.store(n.to(F32))
    arguments = {"x": np.zeros(1, np.float32), "n": 1} | changes
    executor(on).launch(b.module(), "k", grid, arguments)


@pytest.mark.parametrize("on", ["cpu", "simt"])
@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (-1,), None, ("a",), (1.5,)], ids=str)
def test_grids_that_are_none(grid, on):
    with pytest.raises(LaunchError, match="TIR0710"):
        launch(grid, on)


@pytest.mark.parametrize("on", ["cpu", "simt"])
@pytest.mark.parametrize("grid", [1, np.int64(1), [1, 1], np.array([1]), range(1, 2)], ids=str)
def test_grids_are_numbers_or_several(grid, on):
    launch(grid, on)


WRONG = [
    {"n": 1 << 64}, {"n": 1.5}, {"x": None}, {"x": [1.0]}, {"x": "a"}, {"n": np.zeros(2, int)},
    {"more": 1}, *({"x": np.zeros(2, kind)} for kind in (float, object, ">f4", np.int32, "U4")),
]  # fmt: skip


@pytest.mark.parametrize("on", ["cpu", "simt"])
@pytest.mark.parametrize("changes", WRONG, ids=str)
def test_arguments_that_do_not_fit(changes, on):
    with pytest.raises(LaunchError, match="TIR0710"):
        launch((1,), on, **changes)


@pytest.mark.parametrize("on", ["cpu", "simt"])
@pytest.mark.parametrize("argument", [None, [1.0], "a"], ids=str)
def test_what_is_no_array_is_shown(argument, on):
    with pytest.raises(LaunchError, match=r"x is f32.*: an array or an address .* is needed, not"):
        launch((1,), on, x=argument)


@pytest.mark.parametrize("on", ["cpu", "simt"])
@pytest.mark.parametrize("argument", [None, [1.0], "3", b"3", 1j], ids=str)
def test_what_is_no_number_is_shown(argument, on):
    for kind in (F32, I64):
        b = Builder()
        with b.kernel("k", n=kind):
            pass
        with pytest.raises(LaunchError, match=f"n is {kind}: a number is needed, not") as caught:
            executor(on).launch(b.module(), "k", 1, [argument])
        assert caught.value.diagnostics[0].location is not None


def test_accesses_by_a_null_pointer_are_errors():
    with pytest.raises(LaunchError, match=r"TIR0501.*byte 0 of x, which has 0") as caught:
        launch((1,), x=0)
    assert caught.value.diagnostics[0].location is not None
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I64) as (x, y, n):
        with b.if_(n > 0):
            x.store(n.to(F32))
        y.store(n.to(F32))
    y = np.ones(1, np.float32)
    executor("cpu").launch(b.module(), "k", 1, {"x": 0, "y": y, "n": 0})
    assert y[0] == 0


def test_numbers_may_be_arrays_of_no_dimensions():
    launch((1,), n=np.array(3))


@pytest.mark.parametrize("on", ["cpu", "simt"])
def test_too_few_arguments(on):
    b = Builder()
    with b.kernel("k", n=I64):
        pass
    with pytest.raises(LaunchError, match="@k takes 1 arguments, not 0"):
        executor(on).launch(b.module(), "k", 1, [])


@pytest.mark.parametrize("on", ["cpu", "simt"])
def test_arrays_that_are_read_only_are_read(on):
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        y.store(x.load())
    fixed, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    fixed.flags.writeable = False
    executor(on).launch(b.module(), "k", (1,), {"x": fixed, "y": out})
    assert out[0] == 1
    out[0] = 2
    with pytest.raises(LaunchError, match="read-only"):
        executor(on).launch(b.module(), "k", (1,), {"x": out, "y": fixed})


def test_small_launches_stay_on_the_thread_that_launches(monkeypatch):
    """The first launch of several instances takes other threads, since it is not known how long one
    takes; later ones do where that is much."""
    from tileir.backend.cpu import compile as compiling

    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I64) as (x, n):
        (x + b.program_id(axis=0)).store(n.to(F32))
    kernel, workers_used = compiling.compile(b.module()), []
    own = compiling.parallel_for

    def count_workers(part, total, workers, abandon):
        workers_used.append(workers)
        own(part, total, workers, abandon)

    monkeypatch.setattr(compiling, "parallel_for", count_workers)
    x, clock = np.zeros(4, np.float32), [0]

    def now():
        clock[0] += 1_000
        return clock[0]

    monkeypatch.setattr(compiling.time, "perf_counter_ns", now)
    for _ in range(2):
        kernel(4, [x, 7], threads=2)
    kernel(1 << 20, [np.zeros(1 << 20, np.float32), 7], threads=2)
    assert workers_used == [2, 1, 2]
    assert (x == 7).all()
