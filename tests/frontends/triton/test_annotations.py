"""Annotations of parameters: the types that arguments are passed as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.triton.annotations import annotated_type

EXECUTORS = ["interpreter", "cpu", "simt"]


def kernel_of(annotation: Any) -> Any:
    """A kernel that stores twice the square of a number of that annotation."""

    def store_square(z, n):
        tl.store(z, n * n)
        tl.store(z + 1, n)

    store_square.__annotations__["n"] = annotation
    return triton.jit(store_square)


def types_of(kernel: Any, *arguments: Any) -> list[str]:
    parameters = kernel.warmup(*arguments, grid=(1,)).kernel().parameters
    return [str(p.type) for p in parameters]


WRITTEN = {
    "i64": [tl.int64, "i64", "int64", "tl.int64", " tl.int64 "],
    "i32": [tl.int32, "i32", "int32", "tl.int32", int, "int", tl.uint32, "u32", "tl.uint32"],
    "i16": [tl.int16, "i16", tl.uint16, "u16"],
    "i8": [tl.int8, "i8", tl.uint8, "uint8"],
    "i1": [tl.int1, "i1", "u1", bool, "bool"],
    "f32": [tl.float32, "fp32", "tl.float32", float, "float"],
    "f64": [tl.float64, "fp64", "double"],
    "f16": [tl.float16, "fp16", "half"],
    "bf16": [tl.bfloat16, "bf16", "bfloat16"],
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("expected", WRITTEN)
def test_every_way_to_write_a_type(expected: str) -> None:
    for annotation in WRITTEN[expected]:
        z = np.zeros(2, np.float64)
        for number in (1, 16, 3):
            assert types_of(kernel_of(annotation), z, number)[1] == expected, annotation


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", EXECUTORS)
@pytest.mark.parametrize(
    ("annotation", "number", "expected"),
    [
        ("i64", 3 << 20, (3 << 20) ** 2), ("u64", 2**31 + 1, (2**31 + 1) ** 2),
        ("u32", 2**32 - 1, 1), ("i16", -3, 9), ("u8", 255, 1), ("i64", 1, 1),
        ("fp32", 3, 9), ("fp64", 0.1, 0.1 * 0.1), ("fp16", 0.5, 0.25), ("bf16", 1.5, 2.25),
    ],
)  # fmt: skip
def test_arguments_have_the_annotated_type(
    on: str, annotation: str, number: Any, expected: Any
) -> None:
    z = np.zeros(2, np.float64 if isinstance(expected, float) else np.int64)
    kernel_of(annotation)[(1,)](z, number, on=on)
    assert z.tolist() == [expected, number]


def test_a_number_of_numpy_is_passed_as_annotated() -> None:
    z = np.zeros(2, np.int64)
    kernel_of(tl.int64)[(1,)](z, np.int32(3 << 20))
    assert z[0] == (3 << 20) ** 2


@for_each(("annotation", "value"), [
        ("i32", 2**31), ("i32", 2.5), ("u32", -1), ("i8", 128), ("u64", 2**64),
        ("i32", np.zeros(2, np.int32)), ("*i32", 3), (tl.float32, "text"),
    ])  # fmt: skip
def test_what_an_annotation_cannot_hold_is_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(TileirError, match="argument n") as caught:
        kernel_of(annotation)[(1,)](np.zeros(2, np.float64), value)
    assert caught.value.code == "TIR1005"


@triton.jit
def text_annotations(z: tl.int64, x: tl.float32, n: list[int], m: Callable[..., Any]):
    tl.store(z, x)


def test_annotations_made_text_by_a_future_import_are_followed() -> None:
    assert text_annotations.source.annotated_types == {"z": tl.int64, "x": tl.float32}


def bytes_of_pointer(z, x):
    i = tl.arange(0, 8)
    tl.store(z + i, tl.load(x + i))


@pytest.mark.parametrize("annotation", ["*u8", "*i8", tl.pointer_type(tl.uint8), "const *u8"])
def test_a_pointer_is_to_what_it_is_annotated_to(annotation: Any) -> None:
    bytes_of_pointer.__annotations__["x"] = annotation
    x, z = np.array([1.0, -2.5], np.float32), np.zeros(8, np.int32)
    triton.jit(bytes_of_pointer)[(1,)](z, x)
    wide = x.view(np.int8 if annotation == "*i8" else np.uint8)
    assert z.tolist() == wide.tolist()


@triton.jit
def constant(z, N: tl.constexpr, M: tl.constexpr = 3):
    tl.store(z + tl.arange(0, N), M)


def test_a_constexpr_may_be_text() -> None:
    z = np.zeros(4, np.int32)
    constant[(1,)](z, 4)
    assert z.tolist() == [3] * 4


def test_other_annotations_mean_nothing() -> None:
    for annotation in (list[int], "torch.Tensor", np.ndarray, tl.tensor, "no name", None, object):
        assert annotated_type(annotation, kernel_of) is None


def test_variables_keep_the_type_of_their_value() -> None:
    def kernel(z):
        n: tl.int64 = 3
        tl.store(z, (n + tl.program_id(0)).dtype == tl.int32)

    z = np.zeros(1, np.int32)
    triton.jit(kernel)[(1,)](z)
    assert z[0] == 1
