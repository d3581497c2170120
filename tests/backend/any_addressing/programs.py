"""Matmuls of operands that no tensor map describes, as programs of pointers and masks."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from tests.launches import results
from tileir.builder import F16, F32, I8, I32, Builder, arg, pointer
from tileir.ir import Module
from tileir.machine import dtype_of
from tileir.types import Element

PLAIN = {"target": "sm_90a", "warp_specialize": False}
"""Options under which a kernel has no tensor maps."""


@attrs.frozen
class Matmul:
    """C [m, n] = A B with blocks of `block` rows, columns and steps of K. `along_k`: whether
    neighbours of A, and of B, are neighbours along K. `gathered`: row i of A is row `at`[i] of what
    the kernel gets. `through`: what operands are converted from, if not loaded as they are.
    `scaled`: A is multiplied by a number in registers. `stages` as of loops."""

    element: Element
    block: tuple[int, int, int]
    along_k: tuple[bool, bool] = (True, False)
    gathered: bool = False
    through: tuple[Element | None, Element | None] = (None, None)
    scaled: bool = False
    stages: int | None = None
    tested_last: bool = False
    precision: str = "ieee"

    @property
    def total(self) -> Element:
        """The element of C."""
        return I32 if self.element is I8 else F32

    def module(self, multiple: int = 4) -> Module:
        """The program; extents are multiples of `multiple`."""
        (bm, bn, bk), b = self.block, Builder()
        stored_types = [x or self.element for x in self.through]
        a, c = (arg(pointer(e), aligned=16, readonly=True) for e in stored_types)
        data = {"a": a, "b": c}
        sizes = {name: arg(I32, multiple_of=multiple) for name in "mnk"}
        index = {"at": arg(pointer(I32), readonly=True)}
        with b.kernel("matmul", **data, c=pointer(self.total), **sizes, **index) as (
            x, y, z, m, n, k, index,
        ):  # fmt: skip
            rows = b.program_id(axis=0) * bm + b.arange(bm)
            columns = b.program_id(axis=1) * bn + b.arange(bn)
            depth = b.arange(bk)
            row_index = (index + rows).load(rows < m, 0) if self.gathered else rows
            left, right = self._places(x, y, (row_index, columns, depth), (m, n, k))
            left, right = b.var(left), b.var(right)
            steps = [(1 if a else e) * bk for a, e in zip(self.along_k, (m, n), strict=True)]
            zero = 0 if self.total.is_integer else 0.0
            acc = b.var(b.full((bm, bn), zero, self.total))
            options: dict[str, Any] = {} if self.stages is None else {"stages": self.stages}
            with b.for_(0, k, bk, **options) as at:
                inside = depth < k - at
                mask = (rows < m)[:, None] & inside[None, :]
                va = self._load(left.get(), mask, stored_types[0])
                vb = self._load(
                    right.get(), inside[:, None] & (columns < n)[None, :], stored_types[1]
                )
                if self.scaled:
                    va = (va.to(F32) * 0.5).to(self.element)
                acc.set(b.dot(va, vb, acc.get(), precision=self.precision))
                left.set(left.get() + steps[0])
                right.set(right.get() + steps[1])
            mask = (rows < m)[:, None] & (columns < n)[None, :]
            (z + (rows[:, None] * n + columns[None, :])).store(acc.get(), mask)
        return b.module()

    def _places(self, x: Any, y: Any, lanes: Any, extents: Any) -> tuple[Any, Any]:
        (rows, columns, depth), (m, n, k) = lanes, extents
        a = rows[:, None] * k + depth[None, :]
        if not self.along_k[0]:
            a = rows[:, None] + depth[None, :] * m
        b = depth[:, None] * n + columns[None, :]
        if self.along_k[1]:
            b = depth[:, None] + columns[None, :] * k
        return x + a, y + b

    def _load(self, place: Any, mask: Any, stored_type: Element) -> Any:
        value = place.load(mask, 0 if stored_type.is_integer else 0.0)
        return value if stored_type is self.element else value.to(self.element)

    def arguments(self, m: int, n: int, k: int) -> list[Any]:
        """Arrays of numbers that are multiplied exactly in f16, and the extents."""
        random = np.random.default_rng(m + n + k)
        shapes = ((m, k) if self.along_k[0] else (k, m), (n, k) if self.along_k[1] else (k, n))
        inputs = [
            random.integers(-4, 5, s).astype(dtype_of(x or self.element))
            for s, x in zip(shapes, self.through, strict=True)
        ]
        at = random.permutation(m).astype(np.int32)
        return [*inputs, np.zeros((m, n), dtype_of(self.total)), m, n, k, at]

    def results(self, extents: tuple[int, int, int], **options: Any) -> tuple[Any, Any]:
        """C by the interpreter and by all threads."""
        m, n, _ = extents
        module, arguments = self.module(), self.arguments(*extents)
        grid = (-(-m // self.block[0]), -(-n // self.block[1]))
        interpreted, executed = results(module, arguments, grid, **options)
        return interpreted[2], executed[2]


def gated_matmul(stages: int) -> Module:
    """C = (A B) (A D), elementwise: blocks of 64 x 64, two accumulators, steps of 32 along K."""
    b = Builder()
    data = {name: arg(pointer(F16), aligned=16, readonly=True) for name in "abd"}
    sizes = {name: arg(I32, multiple_of=4) for name in "mnk"}
    with b.kernel("gated", **data, c=pointer(F32), **sizes) as (x, y, w, z, m, n, k):
        rows = b.program_id(axis=0) * 64 + b.arange(64)
        columns, depth = b.program_id(axis=1) * 64 + b.arange(64), b.arange(32)
        accumulators = [b.var(b.full((64, 64), 0.0, F32)) for _ in "yw"]
        with b.for_(0, k, 32, stages=stages) as at:
            inside, along = depth < k - at, at + depth
            mask = (rows < m)[:, None] & inside[None, :]
            left = (x + (rows[:, None] * k + along[None, :])).load(mask, 0.0)
            mask = inside[:, None] & (columns < n)[None, :]
            place = along[:, None] * n + columns[None, :]
            for total, base in zip(accumulators, (y, w), strict=True):
                total.set(b.dot(left, (base + place).load(mask, 0.0), total.get()))
        mask = (rows < m)[:, None] & (columns < n)[None, :]
        result = accumulators[0].get() * accumulators[1].get()
        (z + (rows[:, None] * n + columns[None, :])).store(result, mask)
    return b.module()


def paged_attention(rows: int, columns: int, width: int, page: int, stages: int) -> Module:
    """Attention of `rows` queries over keys and values in pages that a table names: addresses
    depend on what each iteration loads. `pages(q, k, v, table, out, length)`."""
    b = Builder()
    data = {n: arg(pointer(F16), aligned=16, readonly=True) for n in "qkv"}
    kinds = {**data, "table": arg(pointer(I32), readonly=True), "out": pointer(F32)}
    with b.kernel("pages", **kinds, length=I32) as (q, k, v, table, out, length):
        rows_, lane, place = b.arange(rows), b.arange(columns), b.arange(width)
        query = (q + (rows_[:, None] * width + place[None, :])).load()
        m, acc = b.var(b.full(rows, float("-inf"))), b.var(b.zeros((rows, width)))
        total = b.var(b.zeros(rows))
        with b.for_(0, length, columns, stages=stages) as start:
            at = start + lane
            number = (table + at // page).load(at < length)
            base = (number * page + at % page) * width
            inside = (at < length)[:, None]
            key = (k + (base[:, None] + place[None, :])).load(inside, 0.0)
            value = (v + (base[:, None] + place[None, :])).load(inside, 0.0)
            score = b.where((at < length)[None, :], query @ key.T, float("-inf"))
            highest = b.maximum(m, score.max(axis=1))
            weight, shrink = (score - highest[:, None]).exp2(), (m - highest).exp2()
            total.set(total * shrink + weight.sum(axis=1))
            acc.set(weight.to(F16).dot(value, acc * shrink[:, None]))
            m.set(highest)
        (out + (rows_[:, None] * width + place[None, :])).store(acc / total[:, None])
    return b.module()
