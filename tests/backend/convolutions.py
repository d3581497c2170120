"""Convolutions as `.tir`, of any window, stride, dilation, padding and block, as Lamont et al. has them.

`y[i, j] = sum over r, s of x[i stride + r dilation - padding, j stride + s dilation - padding] *
k[r, s]`, elements of x beyond its border being 0.
"""

# ruff: noqa: E501 - a line of text is one line here

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np


@attrs.frozen
class Convolution:
    """`loops`: `nested` over rows and columns of the window, `flat` over both in one (Lamont et al.'s
    own), or `none`, the window written out."""

    window: tuple[int, int] = (3, 3)
    stride: int = 1
    dilation: int = 1
    padding: int = 0
    block: tuple[int, int] = (16, 32)
    loops: str = "nested"
    element: str = "f32"
    width: int | None = None
    """The image's width, where it is known while compiling."""
    other: bool = True
    """Whether loads hold 0 where their mask is false."""
    checked: bool = True
    """Whether loads ask whether the output is inside as well."""

    def output(self, shape: tuple[int, int]) -> tuple[int, int]:
        """The shape of y for an x of `shape`."""
        spans = [(n - 1) * self.dilation + 1 for n in self.window]
        sizes = zip(shape, spans, strict=True)
        rows, columns = ((n + 2 * self.padding - s) // self.stride + 1 for n, s in sizes)
        return rows, columns

    def grid(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Blocks for an x of `shape`."""
        rows, columns = (-(-n // b) for n, b in zip(self.output(shape), self.block, strict=True))
        return rows, columns

    def arguments(self, x: Any, k: Any, y: Any) -> list[Any]:
        sizes = [*x.shape, *y.shape]
        return [x, k, y, *(n for i, n in enumerate(sizes) if i != 1 or self.width is None)]

    def reference(self, x: Any, k: Any) -> Any:
        """What numpy computes."""
        padded = np.pad(x.astype(np.float64), self.padding)
        spans = tuple((n - 1) * self.dilation + 1 for n in self.window)
        views = np.lib.stride_tricks.sliding_window_view(padded, spans)
        views = views[:: self.stride, :: self.stride, :: self.dilation, :: self.dilation]
        return np.einsum("hwij,ij->hw", views, k.astype(np.float64))

    def text(self) -> str:
        """The module."""
        lines = [*self._head(), *self._loops(), *self._tail()]
        return "tir 1.0\n\n" + "\n".join(lines) + "\n"

    # Text ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> str:
        return f"{self.block[0]}, {self.block[1]}"

    def _head(self) -> Iterator[str]:
        (bh, bw), e, tile = self.block, self.element, self.shape
        w = "" if self.width is not None else ", i32 %W"
        yield f"define kernel void @conv2d({e}* aligned(16) %x, {e}* aligned(16) %k, {e}* aligned(16) %y, i32 %H{w}, i32 %OH, i32 %OW) {{"
        yield "entry:"
        yield "  %block.i = program_id i32"
        yield "  %block.j = program_id i32 {axis = 1}"
        yield f"  %first.i = mul i32 %block.i, {bh} {{overflow = nsw}}"
        yield f"  %first.j = mul i32 %block.j, {bw} {{overflow = nsw}}"
        yield f"  %range.i = make_range i32<{bh}>"
        yield f"  %range.j = make_range i32<{bw}>"
        yield f"  %lane.i = expand_dims i32<{bh}, 1> %range.i {{axis = 1}}"
        yield f"  %lane.j = expand_dims i32<1, {bw}> %range.j {{axis = 0}}"
        for d, shape in (("i", f"{bh}, 1"), ("j", f"1, {bw}")):
            yield f"  %from.{d} = splat i32<{shape}> %first.{d}"
            yield f"  %{d} = add i32<{shape}> %from.{d}, %lane.{d} {{overflow = nsw}}"
        for d, size, shape in (("i", "H", f"{bh}, 1"), ("j", "W", f"1, {bw}")):
            yield f"  %limit.{d} = splat i32<{shape}> %O{size}"
            yield f"  %in.{d}, _ = icmp (i1<{shape}>, i1<{shape}>) %{d}, %limit.{d} {{predicate = slt}}"
            yield f"  %out.{d} = broadcast i1<{tile}> %in.{d}"
            yield f"  %far.{d} = mul i32<{shape}> %{d}, {self.stride} {{overflow = nsw}}"
            yield f"  %at.{d} = sub i32<{shape}> %far.{d}, {self.padding} {{overflow = nsw}}"
            if size == "H" or self.width is None:
                yield f"  %size.{d} = splat i32<{shape}> %{size}"
        yield f"  %inside = and i1<{tile}> %out.i, %out.j"
        yield f"  %xs = splat {e}*<{tile}> %x"

    def _loops(self) -> Iterator[str]:
        (kh, kw), tile = self.window, f"{self.element}<{self.shape}>"
        if self.loops == "none":
            total = "0.0"
            for n in range(kh * kw):
                yield from self._tap(str(n // kw), str(n % kw), total, f"%sum.{n}", f".{n}")
                total = f"%sum.{n}"
            yield from self._store(total)
        elif self.loops == "flat":
            yield "  br loop"
            yield "loop:"
            yield "  %n = phi i32 [0, entry], [%n.next, body]"
            yield f"  %sum = phi {tile} [0.0, entry], [%sum.next, body]"
            yield f"  %more, _ = icmp (i1, i1) %n, {kh * kw} {{predicate = slt}}"
            yield "  cond_br %more, body, done"
            yield "body:"
            yield f"  %r = sdiv i32 %n, {kw}"
            yield f"  %s = srem i32 %n, {kw}"
            yield from self._tap("%r", "%s", "%sum", "%sum.next", "")
            yield "  %n.next = add i32 %n, 1 {overflow = nsw}"
            yield "  br loop"
            yield "done:"
            yield from self._store("%sum")
        else:
            yield "  br rows"
            yield "rows:"
            yield "  %r = phi i32 [0, entry], [%r.next, rows.end]"
            yield f"  %sum.r = phi {tile} [0.0, entry], [%sum.next, rows.end]"
            yield "  br columns"
            yield "columns:"
            yield "  %s = phi i32 [0, rows], [%s.next, columns]"
            yield f"  %sum = phi {tile} [%sum.r, rows], [%sum.next, columns]"
            yield from self._tap("%r", "%s", "%sum", "%sum.next", "")
            yield "  %s.next = add i32 %s, 1 {overflow = nsw}"
            yield f"  %s.more, _ = icmp (i1, i1) %s.next, {kw} {{predicate = slt}}"
            yield "  cond_br %s.more, columns, rows.end"
            yield "rows.end:"
            yield "  %r.next = add i32 %r, 1 {overflow = nsw}"
            yield f"  %r.more, _ = icmp (i1, i1) %r.next, {kh} {{predicate = slt}}"
            yield "  cond_br %r.more, rows, done"
            yield "done:"
            yield from self._store("%sum.next")

    def _tap(self, r: str, s: str, total: str, result: str, x: str) -> Iterator[str]:
        (bh, bw), e, tile, kw = self.block, self.element, self.shape, self.window[1]
        masks: list[str] = []
        for d, tap, shape in (("i", r, f"{bh}, 1"), ("j", s, f"1, {bw}")):
            yield f"  %step.{d}{x} = mul i32 {tap}, {self.dilation} {{overflow = nsw}}"
            yield f"  %steps.{d}{x} = splat i32<{shape}> %step.{d}{x}"
            yield f"  %p.{d}{x} = add i32<{shape}> %at.{d}, %steps.{d}{x} {{overflow = nsw}}"
            size = str(self.width) if d == "j" and self.width is not None else f"%size.{d}"
            bounds = [("high", "slt", size)] + [("low", "sge", "0")] * (self.padding > 0)
            for name, relation, limit in bounds:
                yield f"  %{name}.{d}{x}, _ = icmp (i1<{shape}>, i1<{shape}>) %p.{d}{x}, {limit} {{predicate = {relation}}}"
                yield f"  %{name}.wide.{d}{x} = broadcast i1<{tile}> %{name}.{d}{x}"
                masks.append(f"%{name}.wide.{d}{x}")
        if self.checked:
            masks.append("%inside")
        mask = masks[0]
        for n, more in enumerate(masks[1:]):
            yield f"  %mask.{n}{x} = and i1<{tile}> {mask}, {more}"
            mask = f"%mask.{n}{x}"
        width = str(self.width)
        if self.width is None:
            yield f"  %row.w{x} = splat i32<{bh}, 1> %W"
            width = f"%row.w{x}"
        yield f"  %row{x} = mul i32<{bh}, 1> %p.i{x}, {width} {{overflow = nsw}}"
        yield f"  %down{x} = broadcast i32<{tile}> %row{x}"
        yield f"  %across{x} = broadcast i32<{tile}> %p.j{x}"
        yield f"  %offset{x} = add i32<{tile}> %down{x}, %across{x} {{overflow = nsw}}"
        yield f"  %px{x} = getelementptr {e}*<{tile}> %xs, %offset{x}"
        yield f"  %vx{x} = load {e}<{tile}> %px{x}, {mask}" + ", 0.0" * self.other
        yield f"  %tap.r{x} = mul i32 {r}, {kw} {{overflow = nsw}}"
        yield f"  %tap{x} = add i32 %tap.r{x}, {s} {{overflow = nsw}}"
        yield f"  %pk{x} = getelementptr {e}* %k, %tap{x}"
        yield f"  %vk{x} = load {e} %pk{x}"
        yield f"  %ks{x} = splat {e}<{tile}> %vk{x}"
        yield f"  %product{x} = fmul {e}<{tile}> %vx{x}, %ks{x}"
        yield f"  {result} = fadd {e}<{tile}> {total}, %product{x}"

    def _store(self, total: str) -> Iterator[str]:
        (bh, _), e, tile = self.block, self.element, self.shape
        yield f"  %width = splat i32<{bh}, 1> %OW"
        yield f"  %out.row = mul i32<{bh}, 1> %i, %width {{overflow = nsw}}"
        yield f"  %out.down = broadcast i32<{tile}> %out.row"
        yield f"  %out.across = broadcast i32<{tile}> %j"
        yield f"  %out.offset = add i32<{tile}> %out.down, %out.across {{overflow = nsw}}"
        yield f"  %ys = splat {e}*<{tile}> %y"
        yield f"  %py = getelementptr {e}*<{tile}> %ys, %out.offset"
        yield f"  store %py, {total}, %inside"
        yield "  ret"

    def _tail(self) -> Iterator[str]:
        yield "}"
