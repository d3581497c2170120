"""The matmul microkernel: a block of accumulators stays in registers. Each step of K updates it
with vectors of a row of B and one number of each row of A (Van Zee and van de Geijn, "BLIS: A
Framework for Rapidly Instantiating BLAS Functionality", 2015)."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.cpu.lane_values import WIDTH, scalar_type
from tileir.backend.cpu.vector_registers import registers
from tileir.types import Element


@attrs.frozen
class Microkernel:
    """Matmuls of an element type: at most `rows` by `columns` accumulators are in registers."""

    element: Element
    rows: int
    columns: int

    @property
    def kind(self) -> str:
        """LLVM's type of an element."""
        return scalar_type(self.element)

    @property
    def vector_type(self) -> str:
        """LLVM's type of a row of accumulators."""
        return f"<{self.columns} x {self.kind}>"


def kernel_for(element: Element) -> Microkernel:
    """The microkernel with the largest block whose accumulators, with a row of B, fit this
    machine's registers. Its rows take two registers, or have 16 columns."""
    name = registers()
    columns = min(WIDTH, max(16, 2 * name.bytes // element.bytes))
    row = columns * element.bytes // name.bytes
    rows = 8
    while rows > 1 and (rows + 1) * row + 1 > name.count:
        rows //= 2
    return Microkernel(element, rows, columns)


def matmul_function(thread: Any, element: Element) -> str:
    """The name of the function that adds A B to C. The module will contain its definition."""
    kernel = kernel_for(element)
    if not element.is_integer:
        vector, name = kernel.vector_type, _fma(kernel)
        thread.declare(f"declare {vector} {name}({vector}, {vector}, {vector})")
    name = f"@matmul.{kernel.kind}"
    thread.declare(_text(name, kernel))
    return name


def _fma(kernel: Microkernel) -> str:
    return f"@llvm.fma.v{kernel.columns}{'f32' if kernel.kind == 'float' else 'f64'}"


def _text(name: str, kernel: Microkernel) -> str:
    """C [rows, columns] += A [rows, depth] B [depth, columns], with B in panels of `WIDTH` columns:
    for every panel, which stays in the first-level cache, blocks of rows, then of half as many,
    down to one."""
    parts = [
        f"define internal void {name}(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %rows, "
        "i64 %columns, i64 %depth, i64 %pitch) #0 {",
        "entry:",
        "  br label %cols",
        "cols:",
        "  %j = phi i64 [ 0, %entry ], [ %jn, %done ]",
        f"  %lane = and i64 %j, {WIDTH - 1}",
        "  %panel = sub i64 %j, %lane",
        "  %start = mul i64 %panel, %depth",
        "  %ob = add i64 %start, %lane",
        f"  %pb = getelementptr {kernel.kind}, ptr %b, i64 %ob",
        f"  %pc = getelementptr {kernel.kind}, ptr %c, i64 %j",
        f"  br label %test{kernel.rows}",
    ]
    before, start, count = "cols", "0", kernel.rows
    while count:
        after = f"test{count // 2}" if count > 1 else "done"
        parts += _rows_text(kernel, count, before, start, after)
        before, start = f"test{count}", f"%i{count}"
        count //= 2
    parts += [
        "done:",
        f"  %jn = add i64 %j, {kernel.columns}",
        "  %wide = icmp ult i64 %jn, %columns",
        "  br i1 %wide, label %cols, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(parts)


def _rows_text(kernel: Microkernel, n: int, before: str, start: str, after: str) -> list[str]:
    """The loop over blocks of `n` rows; its body is the loop over the depth."""
    kind, size, vector, r = kernel.kind, kernel.element.bytes, kernel.vector_type, range(n)
    text = [
        f"test{n}:",
        f"  %i{n} = phi i64 [ {start}, %{before} ], [ %in{n}, %store{n} ]",
        f"  %in{n} = add i64 %i{n}, {n}",
        f"  %fits{n} = icmp ule i64 %in{n}, %rows",
        f"  br i1 %fits{n}, label %rows{n}, label %{after}",
        f"rows{n}:",
    ]
    for k in r:
        text += [
            f"  %r{n}.{k} = add i64 %i{n}, {k}",
            f"  %ra{n}.{k} = mul i64 %r{n}.{k}, %pitch",
            f"  %pa{n}.{k} = getelementptr {kind}, ptr %a, i64 %ra{n}.{k}",
            f"  %rc{n}.{k} = mul i64 %r{n}.{k}, %columns",
            f"  %pc{n}.{k} = getelementptr {kind}, ptr %pc, i64 %rc{n}.{k}",
            f"  %c{n}.{k} = load {vector}, ptr %pc{n}.{k}, align {size}",
        ]
    text += [
        f"  br label %deep{n}",
        f"deep{n}:",
        f"  %k{n} = phi i64 [ 0, %rows{n} ], [ %kn{n}, %deep{n} ]",
        *(
            f"  %s{n}.{k} = phi {vector} [ %c{n}.{k}, %rows{n} ], [ %t{n}.{k}, %deep{n} ]"
            for k in r
        ),
        f"  %ob{n} = mul i64 %k{n}, {WIDTH}",
        f"  %pb{n} = getelementptr {kind}, ptr %pb, i64 %ob{n}",
        f"  %vb{n} = load {vector}, ptr %pb{n}, align {size}",
    ]
    for k in r:
        text += [
            f"  %qa{n}.{k} = getelementptr {kind}, ptr %pa{n}.{k}, i64 %k{n}",
            f"  %xa{n}.{k} = load {kind}, ptr %qa{n}.{k}, align {size}",
            f"  %ia{n}.{k} = insertelement {vector} poison, {kind} %xa{n}.{k}, i64 0",
            f"  %va{n}.{k} = shufflevector {vector} %ia{n}.{k}, {vector} poison, "
            f"<{kernel.columns} x i32> zeroinitializer",
            *_multiply_add(kernel, n, k),
        ]
    text += [
        f"  %kn{n} = add i64 %k{n}, 1",
        f"  %more{n} = icmp ult i64 %kn{n}, %depth",
        f"  br i1 %more{n}, label %deep{n}, label %store{n}",
        f"store{n}:",
        *(f"  store {vector} %t{n}.{k}, ptr %pc{n}.{k}, align {size}" for k in r),
        f"  br label %test{n}",
    ]
    return text


def _multiply_add(kernel: Microkernel, n: int, k: int) -> list[str]:
    """Accumulator `n` of row `k` plus A times B of this step of K."""
    vector = kernel.vector_type
    if kernel.element.is_integer:
        return [
            f"  %m{n}.{k} = mul {vector} %va{n}.{k}, %vb{n}",
            f"  %t{n}.{k} = add {vector} %m{n}.{k}, %s{n}.{k}",
        ]
    return [
        f"  %t{n}.{k} = call {vector} {_fma(kernel)}({vector} %va{n}.{k}, "
        f"{vector} %vb{n}, {vector} %s{n}.{k})"
    ]
