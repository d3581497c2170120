"""Arguments that are several values: tuples, and descriptors that the host made."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir import TileirError
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor
from tileir.textual import parse, print_module

EXECUTORS = ["interpreter", "simt", "cpu"]


class Matrix(NamedTuple):
    """A matrix as kernels take it."""

    data: Any
    shape: tuple[int, int]


@triton.jit
def add_parts(parts, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(len(parts)):
        if parts[k] is not None:
            total += tl.load(parts[k] + i, i < n, 0.0)
    tl.store(out + i, total, i < n)


@pytest.mark.parametrize("on", EXECUTORS)
def test_a_tuple_is_as_many_parameters_as_it_has_arrays(on: str) -> None:
    x, y = np.arange(50, dtype=np.float32), np.ones(50, np.float16)
    out = np.zeros(50, np.float32)
    add_parts[(1,)]((x, None, y), out, 50, BLOCK=64, on=on)
    assert (out == x + 1).all()


@triton.jit
def rows_and_columns(m, out):
    rows, columns = m.shape
    tl.store(out, rows * 1000 + columns)
    tl.store(out + 1, tl.load(m.data + rows * columns - 1))


def test_a_named_tuple_keeps_its_names() -> None:
    out = np.zeros(2, np.int32)
    rows_and_columns[(1,)](Matrix(np.arange(12, dtype=np.int32), (3, 4)), out)
    assert out.tolist() == [3004, 11]


def test_the_numbers_of_a_tuple_are_given_when_it_runs() -> None:
    x, out = np.arange(12, dtype=np.int32), np.zeros(2, np.int32)
    modules = {
        print_module(rows_and_columns.warmup(Matrix(x, shape), out, grid=(1,)))
        for shape in [(3, 4), (2, 5)]
    }
    assert len(modules) == 1
    assert "%m.1.0" in modules.pop()


@triton.jit
def transpose(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    block = source.load([i, j])
    if j < source.shape[1]:
        target.store([j, i], block.T)


def descriptor_of(array: Any, block: list[int]) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(array, block)


@pytest.mark.parametrize("on", EXECUTORS)
def test_a_descriptor_of_the_host_is_read_and_written_in_blocks(on: str) -> None:
    wide = np.arange(20 * 48, dtype=np.float32).reshape(20, 48)
    x, out = wide[:, :30], np.zeros((30, 20), np.float32)
    transpose[(3, 2)](descriptor_of(x, [8, 16]), descriptor_of(out, [16, 8]), 8, 16, on=on)
    np.testing.assert_array_equal(out, x.T)


def test_a_descriptor_can_be_of_a_part() -> None:
    x, out = np.ones((8, 16), np.float32), np.zeros((16, 8), np.float32)
    part = TensorDescriptor(x, (5, 11), (16, 1), [8, 16])
    transpose[(1, 1)](part, descriptor_of(out, [16, 8]), 8, 16)
    assert out[:11, :5].all() and out.sum() == 55


def test_signatures_name_tuples_and_descriptors() -> None:
    types = {"source": "tensordesc<fp16[8, 16]>", "target": "tensordesc<fp16[16,8]>"}
    module = transpose.module(types, {"ROWS": 8, "COLUMNS": 16})
    assert print_module(parse(print_module(module))) == print_module(module)
    names = [p.name for p in module.kernel().parameters]
    assert names[:4] == ["source", "source.1", "source.2", "source.3"]
    add_parts.module({"parts": ("*fp32", "*fp16"), "out": "*fp32", "n": "i32"}, {"BLOCK": 32})


def test_what_is_no_descriptor_is_refused() -> None:
    x = np.ones((4, 4), np.float32)
    for arguments in (((4, 4), (4, 1), [4]), ((4, 4), (1, 4), [4, 4])):
        with pytest.raises(TileirError) as caught:
            TensorDescriptor(x, *arguments)
        assert caught.value.code == "TIR1005"
    with pytest.raises(TileirError):
        transpose[(1, 1)](
            TensorDescriptor(3, (4, 4), (4, 1), [4, 4]), descriptor_of(x, [4, 4]), 4, 4
        )


def set_block_shapes(arguments: dict[str, Any]) -> None:
    arguments["source"].block_shape = [arguments["ROWS"], arguments["COLUMNS"]]
    arguments["target"].block_shape = [arguments["COLUMNS"], arguments["ROWS"]]


@triton.autotune(
    [triton.Config({"ROWS": r, "COLUMNS": 8}, pre_hook=set_block_shapes) for r in (4, 8)], key=[]
)
@triton.jit
def tuned_transpose(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    target.store([j, i], tl.trans(source.load([i, j])) * 2.0)


def test_a_hook_of_a_configuration_sets_the_block_and_trials_leave_arrays_alone() -> None:
    x, out = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    source, target = descriptor_of(x, [1, 1]), descriptor_of(out, [1, 1])
    tuned_transpose[lambda meta: (8 // meta["ROWS"], 1)](source, target)
    assert (out == 2).all() and (x == 1).all()
    assert len(tuned_transpose.configs_timings) == 2


def fewest(configs: list[Any], arguments: dict[str, Any], **named: Any) -> list[Any]:
    assert set(arguments) == {"x"} and named == {"n": 7}
    return configs[1:]


@triton.autotune(
    [triton.Config({"B": b}) for b in (8, 16, 32)], key=["n"],
    prune_configs_by={
        "early_config_prune": fewest, "perf_model": lambda x, n, B, **_: -B, "top_k": 1,
    },
)  # fmt: skip
@triton.jit
def store_block_size(x, n, B: tl.constexpr):
    tl.store(x, B)


def test_configurations_are_pruned_by_functions_of_the_user() -> None:
    x = np.zeros(1, np.int32)
    store_block_size[(1,)](x, n=7)
    assert x[0] == 32


@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["m", "x"])
def plain(x, n, m, one):
    tl.store(x, n + m + one)


def test_what_is_not_assumed_of_arguments() -> None:
    module = plain.warmup(np.zeros(16, np.int32), 1, 48, 1, grid=(1,))
    parameters = {p.name: p.attributes for p in module.kernel().parameters}
    assert set(parameters) == {"x", "n", "m"}
    assert not parameters["m"].multiple_of and not parameters["x"].aligned
