"""Functions that rearrange and create elements, next to numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.sizes import for_each

from .sources import kernel_of

X = np.random.default_rng(0).permutation(48).astype(np.int32) - 20


def check(shape: tuple[int, ...], cases: dict[str, Any], x: Any = X) -> None:
    """Expressions of `v`, a tensor of `shape`, have the values and shapes of the arrays."""
    size = int(np.prod(shape))
    x = x.ravel()[:size]
    arrays = [np.asarray(value) for value in cases.values()]
    lines = [f"    v = tl.load(x + tl.arange(0, {size})).reshape({shape})"]
    first = 0
    for text, array in zip(cases, arrays, strict=True):
        extents = "".join(f"{n}, " for n in array.shape)
        lines.append(f"    r = {text}")
        lines.append(f"    tl.static_assert(r.shape == ({extents}), {text!r})")
        lines.append(f"    tl.store(out + {first} + tl.arange(0, {array.size}), r.ravel())")
        first += array.size
    out = np.zeros(first, np.result_type(*arrays))
    kernel_of("\n".join(["def k(x, out):", *lines]))[(1,)](x, out, on="interpreter")
    for text, array in zip(cases, arrays, strict=True):
        actual, out = out[: array.size].reshape(array.shape), out[array.size :]
        np.testing.assert_array_equal(actual, array, err_msg=text)


@for_each("shape", [(48,), (6, 8), (2, 3, 8), (2, 3, 2, 4)])
def test_dimensions(shape: tuple[int, ...]) -> None:
    x, rank = X.reshape(shape), len(shape)
    cases: dict[str, Any] = {"tl.ravel(v)": x.ravel(), "v.reshape(4, -1)": x.reshape(4, -1)}
    cases["tl.view(v, [-1, 16])"] = x.reshape(-1, 16)
    for axis in range(-rank - 1, rank + 1):
        more = np.expand_dims(x, axis)
        cases[f"tl.expand_dims(v, {axis})"] = more
        cases[f"tl.squeeze(tl.unsqueeze(v, {axis}), {axis})"] = x
    cases[f"tl.expand_dims(v, (0, {rank + 1}))"] = np.expand_dims(x, (0, rank + 1))
    cases["tl.expand_dims(v, (-1, 1))"] = np.expand_dims(x, (-1, 1))
    cases["tl.broadcast_to(tl.expand_dims(v, 0), 3, *v.shape)"] = np.broadcast_to(x, (3, *shape))
    if rank > 1:
        cases["tl.trans(v)"] = cases["v.T"] = np.swapaxes(x, -1, -2)
        for order in [(*range(rank)[::-1],), (*range(1, rank), 0), (rank - 1, *range(rank - 1))]:
            cases[f"tl.permute(v, {order})"] = cases[f"v.trans{order}"] = x.transpose(order)
    check(shape, cases)


@for_each("shape", [(8,), (6, 8), (2, 3, 8)])
def test_pairs(shape: tuple[int, ...]) -> None:
    x = X[: np.prod(shape)].reshape(shape)
    cases: dict[str, Any] = {"tl.join(v, -v)": np.stack([x, -x], -1)}
    halves = x.reshape(*shape[:-1], shape[-1] // 2, 2)
    for number in (0, 1):
        cases[f"tl.reshape(v, {halves.shape}).split()[{number}]"] = halves[..., number]
    cases["tl.interleave(v, -v)"] = np.stack([x, -x], -1).reshape(*shape[:-1], -1)
    for axis in range(-len(shape), len(shape)):
        cases[f"tl.cat(v, -v, dim={axis})"] = np.concatenate([x, -x], axis)
    cases["tl.cat(v, -v)"] = np.concatenate([x, -x])
    cases["tl.join(v.ravel().gather(tl.full([1], 0, tl.int32), 0).item(), 3)"] = [x.flat[0], 3]
    check(shape, cases, x)


@for_each("shape", [(6, 8), (4, 2, 3)])
def test_elements_along_each_dimension(shape: tuple[int, ...]) -> None:
    x = X[: np.prod(shape)].reshape(shape)
    cases: dict[str, Any] = {
        "tl.flip(v)": np.flip(x, -1), "tl.sort(v)": np.sort(x),
        "tl.sort(v, descending=True)": -np.sort(-x),
        "tl.topk(v, 2)": -np.sort(-x)[..., :2],
    }  # fmt: skip
    for axis in range(-len(shape), len(shape)):
        cases[f"tl.flip(v, {axis})"] = np.flip(x, axis)
        cases[f"v.sort({axis})"] = np.sort(x, axis)
        cases[f"tl.sort(v, {axis}, descending=1)"] = -np.sort(-x, axis)
        cases[f"tl.topk(v, 2, {axis})"] = np.take(-np.sort(-x, axis), (0, 1), axis)
        places = np.abs(x) % shape[axis]
        text = f"tl.gather(v, tl.abs(v) % {shape[axis]}, {axis})"
        cases[text] = np.take_along_axis(x, places, axis)
    check(shape, cases, x)


@for_each("kind", ["int8", "uint8", "int64", "uint64", "float16"])
@for_each("extent", [8, 6])
def test_order_of_every_type(kind: str, extent: int) -> None:
    """By the sign of the type."""
    ends = np.iinfo(kind) if "int" in kind else np.finfo(kind)
    numbers: list[Any] = [ends.max, 3, ends.min, 0, 1, ends.max - 1, 7, 2]
    x = np.array(numbers[:extent], kind)
    ascending = np.sort(x)
    check((extent,), {
        "tl.sort(v)": ascending, "tl.topk(v, 4)": ascending[::-1][:4],
    }, x)  # fmt: skip


def test_parts() -> None:
    x = X.reshape(6, 8)
    inside, strided = x.copy(), x.copy()
    inside[1:4, 2:4] = -x[2:5, 3:5]
    strided[0:6:2, 1:7:3] = -x[2:5, 3:5]
    part = "tl.extract_slice(v, [2, 3], [3, 2], [1, 1])"
    check((6, 8), {
        part: x[2:5, 3:5],
        "tl.extract_slice(v, [0, 1], [3, 2], [2, 3])": x[0:6:2, 1:7:3],
        "tl.extract_slice(v, [tl.program_id(0) + 1, 2], [4, 4], [1, 1])": x[1:5, 2:6],
        f"tl.insert_slice(v, -{part}, [1, 2], [3, 2], [1, 1])": inside,
        f"tl.insert_slice(v, -{part}, [0, 1], [3, 2], [2, 3])": strided,
    })  # fmt: skip


def test_counts_and_fills() -> None:
    x = np.abs(X) % 8
    bins = np.arange(8)
    check((48,), {
        "tl.histogram(v, 8)": np.bincount(x, minlength=8),
        "tl.histogram(v, 8, v > 2)": np.where(bins > 2, np.bincount(x, minlength=8), 0),
        "tl.histogram(v, 8, mask=tl.arange(0, 48) < 20)": np.bincount(x[:20], minlength=8),
        "tl.full([2, 3], 7, tl.int32)": np.full((2, 3), 7, np.int32),
        "tl.zeros([3, 2], tl.int32)": np.zeros((3, 2), np.int32),
        "tl.zeros_like(v)": np.zeros(48, np.int32), "tl.full_like(v, -3)": np.full(48, -3),
        "tl.arange(3, 9)": np.arange(3, 9), "tl.where(v > 3, v, -v)": np.where(x > 3, x, -x),
    }, x.astype(np.int32))  # fmt: skip


@for_each(("rows", "columns", "group"), [(4, 4, 2), (5, 3, 2), (7, 4, 3), (3, 5, 8)])
def test_groups_of_rows(rows: int, columns: int, group: int) -> None:
    """Column by column within groups of rows, of which the last may have fewer."""
    places = np.full((rows, columns), -1, np.int32)
    order = [
        (i, j)
        for first in range(0, rows, group)
        for j in range(columns)
        for i in range(first, min(first + group, rows))
    ]
    source = f"""def k(out):
    i = tl.arange(0, {rows})[:, None]
    j = tl.arange(0, {columns})[None, :]
    row, column = tl.swizzle2d(i, j, {rows}, {columns}, {group})
    tl.store(out + row * {columns} + column, i * {columns} + j)
"""
    kernel_of(source)[(1,)](places, on="interpreter")
    assert [places[place] for place in order] == list(range(rows * columns))
