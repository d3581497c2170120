"""The kernels of Triton's Python that Pham 2025 prints: hand-written and generated ones. Those that
are generated ask for sizes that blocks divide; strides are any."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..triton import thesis_kernels as k
from .model import Listing, Refusal, Size, close, sizes, unset


def strided_array(*shape: int) -> Any:
    """Random numbers; the last dimension is the slow one, so that strides are not all alike."""
    return np.random.default_rng(sum(shape)).standard_normal(shape[::-1]).astype(np.float32).T


def steps(array: Any) -> tuple[int, ...]:
    return tuple(n // array.itemsize for n in array.strides)


def add(on: str, n: int) -> None:
    x, y, out = strided_array(n), strided_array(n + 1)[:n], unset(n)
    k.add[(-(-n // 32),)](x, y, out, n, BLOCK_SIZE=32, on=on)
    assert (out == x + y).all()


def scaled_total(on: str, x: int, y: int) -> None:
    a, b, out = strided_array(x, y), strided_array(x, y)[:, ::-1].copy(), unset(x, y)
    grid = (x * (y // 256),)
    k.axpy_like[grid](a, *steps(a), b, *steps(b), 2.5, out, *steps(out), y, x, on=on)
    close(out, np.float32(2.5) * (a + b))


def relu(name: str, x_block: int = 0, y_block: int = 0, power: bool = False) -> Any:
    """Blocks of 0 are all; `power` for a kernel that takes a power of two from y up."""

    def check(on: str, x: int, y: int) -> None:
        a, out = strided_array(x, y), unset(x, y)
        grid = (x // (x_block or x)) * (y // (y_block or y))
        more = {"num_warps": 8} if name == "relu_warps" else {}
        last = (1 << (y - 1).bit_length(),) if power else ()
        getattr(k, name)[(grid,)](a, *steps(a), out, *steps(out), y, x, *last, on=on, **more)
        assert (out == np.maximum(a, 0)).all()

    return check


def swish(name: str) -> Any:
    def check(on: str, x: int, y: int) -> None:
        a, out, stored = strided_array(x, y), unset(x, y), unset(x, y)
        middle = (stored, *steps(stored)) if name == "swish_stored" else ()
        last = (1 << (y - 1).bit_length(),) if name == "swish_rows" else ()
        kernel = getattr(k, name)
        kernel[(1,)](a, *steps(a), 1.5, *middle, out, *steps(out), y, x, *last, on=on)
        close(out, a / (1 + np.exp(-1.5 * a)))

    return check


def total(name: str) -> Any:
    def check(on: str, x: int, k_: int) -> None:
        a, out = strided_array(x, k_), unset(x)
        getattr(k, name)[(1,)](a, *steps(a), out, 1, x, k_, on=on)
        close(out, a.sum(1))

    return check


def split_total(on: str, x: int, k_: int) -> None:
    a, out, parts = strided_array(x, k_), unset(x), unset(x, k_ // 32)
    k.split_k[(k_ // 32,)](a, *steps(a), parts, *steps(parts), x, k_, on=on)
    k.sum_of_split[(1,)](a, *steps(a), parts, *steps(parts), out, 1, x, k_, on=on)
    close(out, a.sum(1))


def listing(
    number: str, what: str, check: Any, allowed: tuple[Size, ...], refused: Refusal | None = None
) -> Listing:
    return Listing("Pham 2025", f"Listing {number}", what, "Triton", check, allowed, refused)


SMALL = sizes("x y", (3, 5), (4, 8), (1, 17))
LOAD = "A = tl.load(A_ptr"

LISTINGS = (
    listing("2.2", "vector addition", add, sizes("n", (100,), (128,), (1,))),
    listing("3.2", "scaled sum", scaled_total, sizes("x y", (4, 512), (3, 256))),
    listing("3.6", "relu", relu("relu_scalar"), SMALL),
    listing("3.8", "relu", relu("relu_blocks", 16, 64), sizes("x y", (32, 64), (16, 128))),
    listing(
        "3.9", "relu", relu("relu_rows", power=True), sizes("x y", (64, 32), (128, 16)),
        Refusal(LOAD, sizes("x y", (67, 32), (64, 33))),
    ),
    listing("3.10", "relu", relu("relu_tiles", 4, 128), sizes("x y", (8, 128), (4, 256))),
    listing("3.11", "relu", relu("relu_grouped", 8, 16), sizes("x y", (32, 32), (64, 16))),
    listing("3.13", "swish", swish("swish_scalar"), SMALL),
    listing("3.14", "swish", swish("swish_stored"), SMALL),
    listing(
        "3.15", "swish", swish("swish_rows"), sizes("x y", (3, 16), (5, 32), (1, 1)),
        Refusal(LOAD, sizes("x y", (3, 13), (2, 17))),
    ),
    listing("3.16", "relu", relu("relu_warps"), SMALL),
    listing("3.18", "sum", total("sum_scalar"), sizes("x k_", (3, 7), (2, 64), (1, 1))),
    listing(
        "3.19", "sum", total("sum_vector"), sizes("x k_", (3, 64), (1, 16)),
        Refusal(LOAD, sizes("x k_", (3, 37), (2, 5))),
    ),
    listing("3.20, 3.21", "sum", split_total, sizes("x k_", (3, 64), (2, 32))),
)  # fmt: skip
