"""Kernels of sm_90 as text, by shape and type, and what they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir.machine import dtype_of
from tileir.textual import parse
from tileir.types import F32, Element, scalar

CORPUS = Path(__file__).parents[2] / "corpus" / "hopper"

_BARRIERS = "i64 addrspace(3)* {count = 1}"
_SPANS = ((3, 128), (2, 64), (1, 32), (0, 16))


@attrs.frozen
class WgmmaProgram:
    """One block: c = a b over `iterations` steps of `depth`, by `warps` warps, all of which
    load."""

    m: int
    n: int
    depth: int
    element: str = "f16"
    sum: str = "f32"
    trans_a: bool = False
    trans_b: bool = False
    registers: bool = False
    warps: int = 4
    iterations: int = 2
    swizzles: tuple[int | None, int | None] = (None, None)
    other: str = ""
    signed: tuple[bool, bool] = (True, True)
    parts: int = 1
    """Parts of K, by one `wgmma` each."""

    @property
    def elements(self) -> tuple[Element, Element, Element]:
        """Of a, b and c."""
        return tuple(scalar(n) for n in (self.element, self.other or self.element, self.sum))  # type: ignore[return-value]

    def text(self) -> str:
        """The program."""
        a, b, c = self.elements
        whole = (self.m, self.n)
        left = _Buffer("a", a, self._shape("a"), self.swizzles[0])
        right = _Buffer("b", b, self._shape("b"), self.swizzles[1])
        size = left.bytes + right.bytes
        moved = {True: "%i, 0", False: "0, %i"}
        at = moved[self.trans_a], moved[not self.trans_b]
        flags = [
            name
            for name, on in (
                ("trans_a = true", self.trans_a),
                ("trans_b = true", self.trans_b),
                ("lhs_signed = false", not self.signed[0]),
                ("rhs_signed = false", not self.signed[1]),
            )
            if on
        ]
        tile, types = f"{a}<{self.m}, {self.depth}>", f"{c}<{self.m}, {self.n}>"
        operand_a, load = "%a", ""
        if self.registers:
            operand_a, load = "%x", f"  %x = gpu.local_load {tile} %a, 0\n"
        each, multiplied, total = self.depth // self.parts, "", "%sum"
        for part in range(self.parts):
            ranges = [f"depth = [{part * each}, {each}]"] if self.parts > 1 else []
            attributes = f" {{{', '.join([*flags, *ranges])}}}" if flags or ranges else ""
            operands = f"{operand_a}, 0, %b, 0, {total}"
            multiplied += f"  %begun{part} = gpu.wgmma {types} {operands}{attributes}\n"
            total = f"%begun{part}"
        header = (
            f"define kernel void @product({a}* %pa, {b}* %pb, {c}* noalias %pc, i32 %k) "
            f"{{num_warps = {self.warps}}} {{"
        )
        zero = "0" if c.is_integer else "0.0"
        return f"""tir 1.0
stage "warp_specialized"

{header}
entry:
  %wide = sext i64 %k
{left.map(self.trans_a)}{right.map(not self.trans_b)}  %full = gpu.mbarrier_alloc {_BARRIERS}
  br loop
loop:
  %i = phi i32 [0, entry], [%next, loop]
  %parity = phi i32 [0, entry], [%turned, loop]
  %sum = phi {types} [{zero}, entry], [%done, loop]
  gpu.mbarrier_expect %full, 0 {{bytes = {size}}}
  gpu.tma_load %as, %a, 0, %full, 0, {at[0]}
  gpu.tma_load %bs, %b, 0, %full, 0, {at[1]}
  gpu.mbarrier_wait %full, 0, %parity
{load}{multiplied}  %done = gpu.wgmma_wait {types} {total}
  gpu.barrier
  %turned = xor i32 %parity, 1
  %next = add i32 %i, {self.depth}
  %more, _ = icmp (i1, i1) %next, %k {{predicate = slt}}
  cond_br %more, loop, last
last:
  %r = make_range i32<{whole[0]}>
  %r1 = expand_dims i32<{whole[0]}, 1> %r {{axis = 1}}
  %r2 = mul i32<{whole[0]}, 1> %r1, {whole[1]}
  %r3 = broadcast i32<{whole[0]}, {whole[1]}> %r2
  %q = make_range i32<{whole[1]}>
  %q1 = expand_dims i32<1, {whole[1]}> %q {{axis = 0}}
  %q2 = broadcast i32<{whole[0]}, {whole[1]}> %q1
  %o = add i32<{whole[0]}, {whole[1]}> %r3, %q2
  %ps = splat {c}*<{whole[0]}, {whole[1]}> %pc
  %p = getelementptr {c}*<{whole[0]}, {whole[1]}> %ps, %o
  store %p, %done
  ret
}}
"""

    def __str__(self) -> str:
        ways = "".join("nt"[x] for x in (self.trans_a, self.trans_b))
        kinds = f"{self.element}{self.other}_{self.sum}"
        rest = f"{self.warps}w{'r' * self.registers}{self.swizzles if any(self.swizzles) else ''}"
        parts = f"_{self.parts}" if self.parts > 1 else ""
        return f"{self.m}x{self.n}x{self.depth}{parts}_{kinds}_{ways}_{rest}"

    def _shape(self, which: str) -> tuple[int, int]:
        if which == "a":
            return (self.depth, self.m) if self.trans_a else (self.m, self.depth)
        return (self.n, self.depth) if self.trans_b else (self.depth, self.n)

    def arguments(self, seed: int) -> tuple[list[Any], np.ndarray[Any, Any]]:
        """Arguments, c last of the arrays, and what c shall hold."""
        rng, k = np.random.default_rng(seed), self.depth * self.iterations
        x, y = rng.integers(-3, 4, (self.m, k)), rng.integers(-3, 4, (k, self.n))
        if not self.signed[0]:
            x = x % 251
        if not self.signed[1]:
            y = y % 251
        left, right = (x.T if self.trans_a else x), (y.T if self.trans_b else y)
        a, b, c = self.elements
        stored = [stored_array(e, v) for e, v in ((a, left), (b, right))]
        result = np.zeros((self.m, self.n), _dtype(c))
        return [*stored, result, k], (x @ y).astype(np.float64)

    def module(self) -> Any:
        """Parsed."""
        return parse(self.text())


@attrs.frozen
class _Buffer:
    name: str
    element: Element
    shape: tuple[int, int]
    inputs: int | None

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.element.bytes

    @property
    def swizzle(self) -> int:
        if self.inputs is not None:
            return self.inputs
        row = self.shape[1] * self.element.bytes
        return next(s for s, span in _SPANS if row % span == 0)

    def map(self, k_first: bool) -> str:
        """The tensor map, of a tensor with %k elements along K, with storage."""
        panel = (16 << self.swizzle) // self.element.bytes
        rows, columns = self.shape
        extents = ("[%k, i64 {1}], [i32 {1}, i64 1]" if k_first
                   else "[i32 {0}, %wide], [%k, i64 1]").format(rows, columns)  # fmt: skip
        kind, pointer = f"{self.element}<{rows}, {columns}>", f"{self.element} addrspace(3)*"
        layout = f"swizzle = {self.swizzle}, panel = {panel}"
        return (
            f"  %{self.name}s = gpu.tensor_map tensor_desc<{kind}> %p{self.name}, {extents} "
            f"{{swizzle = {self.swizzle}}}\n"
            f"  %{self.name} = gpu.shared_alloc {pointer} "
            f"{{shape = [1, {rows}, {columns}], {layout}}}\n"
        )


def _dtype(element: Element) -> Any:
    return dtype_of(element)


def stored_array(element: Element, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers as an array that a kernel takes."""
    if element.is_integer:
        return values.astype(np.int64).astype(np.uint8).view(np.int8).copy()
    return np.ascontiguousarray(values.astype(np.float32).astype(_dtype(element)))


def corpus(name: str) -> str:
    """The text of a program of the corpus."""
    return (CORPUS / f"{name}.tir").read_text()


__all__ = ["F32", "WgmmaProgram", "corpus"]
