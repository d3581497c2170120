"""Matrix products on a CPU: factors and sums lie in buffers on the stack, and a function of the
module multiplies them, a few rows by one vector of columns at a time.

The factors are widened to the type that products are added in, which is exact.
"""

from __future__ import annotations

from typing import Any

from tileir import records
from tileir.backend.cpu.lanes import WIDTH, scalar_type
from tileir.backend.lower.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.rules.cast import float_to_float
from tileir.ir import Function
from tileir.ops.dot import Dot, Precision
from tileir.rewrite import Walk, rewrite
from tileir.types import F16, F32, F64, I32, AddressSpace, Element, Pointer, Tile

_ROWS = 8
"""Rows of sums held in registers: of AVX-512's 32, f32 takes two for each row."""


class Product(Dot):
    """A `dot` whose operands and result may have any layout."""

    mnemonic = "cpu.dot"


def free_dots(function: Function) -> Function:
    """`function` with every `dot` as one without wishes for layouts."""

    def freed(op: Any, walk: Walk) -> Any:
        fields = {f.name: getattr(op, f.name) for f in records.fields(type(op)) if f.init}
        return Product(**fields)

    return rewrite(function, {"dot": freed})


@records.frozen
class _Matrix:
    """A buffer for a tile: rows of `pitch` elements, a multiple of the lanes."""

    place: str
    element: Element
    shape: tuple[int, ...]

    @property
    def pitch(self) -> int:
        return -(-self.shape[-1] // WIDTH) * WIDTH

    @property
    def count(self) -> int:
        """Elements of one matrix."""
        return self.shape[-2] * self.pitch

    def allocate(self, thread: Any) -> None:
        """Room on the stack."""
        batch = self.shape[0] if len(self.shape) == 3 else 1
        kind = f"[{batch * self.count} x {scalar_type(self.element)}]"
        thread.at_entry.append(f"  {self.place} = alloca {kind}, align 64")


def _dot(lowering: Lowering, op: Any) -> list[Fragment]:
    thread: Any = lowering.thread
    total, work = scalar_of(op.c.type), _work(scalar_of(op.c.type))
    parts: list[_Matrix] = []
    for operand, signed in ((op.a, op.lhs_signed), (op.b, op.rhs_signed), (op.c, True)):
        matrix = _Matrix(thread.fresh(), work, operand.type.shape)
        matrix.allocate(thread)
        element = scalar_of(operand.type)
        values = [_widened(thread, element, work, signed, x) for x in lowering.fragment(operand)]
        if op.precision is Precision.TF32 and operand is not op.c:
            values = [thread.round_tf32(x) for x in values]
        _put(lowering, operand.type, values, matrix)
        parts.append(matrix)
    _multiply(thread, parts)
    found = _get(lowering, op.c.type, parts[2])
    if total is not work:
        found = [thread.convert("fptrunc", work, total, x) for x in found]
    return [found]


def _widened(thread: Any, element: Element, work: Element, signed: bool, x: Any) -> Any:
    if element is work:
        return x
    if element.is_integer:
        return thread.convert("sext" if signed else "zext", element, I32, x)
    return float_to_float(thread, element, work, x, "rn", False)


def _work(element: Element) -> Element:
    return F32 if element is F16 else element


def _address(lowering: Lowering, tile: Tile, register: int, matrix: _Matrix) -> Any:
    """Where the element of a register lies."""
    thread: Any = lowering.thread
    strides = (matrix.count, matrix.pitch, 1)[-len(tile.shape) :]
    index: Any = "0"
    for dim, stride in enumerate(strides):
        at = lowering.coordinate(tile.layout, register, dim)
        term = thread.binary("mul", I32, at, thread.integer(stride), "nsw nuw")
        index = thread.binary("add", I32, index, term, "nsw nuw")
    kind = Pointer(matrix.element, AddressSpace.GENERIC)
    return thread.advance(kind, matrix.place, index, I32)


def _put(lowering: Lowering, tile: Tile, values: Fragment, matrix: _Matrix) -> None:
    thread: Any = lowering.thread
    for register, x in enumerate(values):
        mask = lowering.inside(tile.layout, tile.shape, register)
        if mask != "false":
            at = _address(lowering, tile, register, matrix)
            thread.store_elements(matrix.element, at, x, mask)


def _get(lowering: Lowering, tile: Tile, matrix: _Matrix) -> Fragment:
    thread: Any = lowering.thread
    found: Fragment = []
    for register in range(tile.layout.size("register")):
        mask = lowering.inside(tile.layout, tile.shape, register)
        if mask == "false":
            found.append(thread.constant(matrix.element, 0))
        else:
            at = _address(lowering, tile, register, matrix)
            found.append(thread.load_elements(matrix.element, at, mask))
    return found


def _multiply(thread: Any, parts: list[_Matrix]) -> None:
    a, b, c = parts
    name = product_function(thread, c.element)
    batch = c.shape[0] if len(c.shape) == 3 else 1
    rows, columns, depth = c.shape[-2], c.pitch, a.shape[-1]
    for i in range(batch):
        places = [
            p.place if i == 0 else thread.emit(
                f"getelementptr {scalar_type(p.element)}, ptr {p.place}, i64 {i * p.count}")
            for p in parts
        ]  # fmt: skip
        sizes = (rows, columns, depth, a.pitch, b.pitch)
        given = ", ".join([*(f"ptr {p}" for p in places), *(f"i64 {n}" for n in sizes)])
        thread.line(f"call void {name}({given})")


def product_function(thread: Any, element: Element) -> str:
    """The name of the function that adds the product of A and B to C, noted for the module."""
    kind, size = scalar_type(element), element.bytes
    rows = _ROWS if element is not F64 else _ROWS // 2
    name = f"@product.{kind}"
    if not element.is_integer:
        suffix, whole = "f32" if kind == "float" else "f64", f"<{WIDTH} x {kind}>"
        thread.declare(f"declare {whole} @llvm.fma.v{WIDTH}{suffix}({whole}, {whole}, {whole})")
    thread.declare(_product_text(name, element, kind, size, rows))
    return name


def _product_text(name: str, element: Element, kind: str, size: int, most: int) -> str:
    """C [rows, columns] += A [rows, depth] B [depth, columns]: blocks of `most` rows, then of
    half of that, down to one."""
    parts = [
        f"define internal void {name}(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %rows, "
        "i64 %columns, i64 %depth, i64 %pitch_a, i64 %pitch_b) #0 {",
        "entry:",
        f"  br label %test{most}",
    ]
    before, count = "entry", most
    start = "0"
    while count:
        following = count // 2
        after = f"test{following}" if following else "done"
        parts += _rows_text(element, kind, size, count, before, start, after)
        before, start = f"test{count}", f"%i{count}"
        count = following
    parts += ["done:", "  ret void", "}"]
    return "\n".join(parts)


def _rows_text(
    element: Element, kind: str, size: int, n: int, before: str, start: str, after: str
) -> list[str]:
    """The loop over blocks of `n` rows, over vectors of columns, over the depth."""
    whole, r = f"<{WIDTH} x {kind}>", range(n)
    text = [
        f"test{n}:",
        f"  %i{n} = phi i64 [ {start}, %{before} ], [ %in{n}, %next{n} ]",
        f"  %in{n} = add i64 %i{n}, {n}",
        f"  %fits{n} = icmp ule i64 %in{n}, %rows",
        f"  br i1 %fits{n}, label %cols{n}, label %{after}",
        f"cols{n}:",
        f"  %j{n} = phi i64 [ 0, %test{n} ], [ %jn{n}, %store{n} ]",
    ]
    for k in r:
        text += [
            f"  %r{n}.{k} = add i64 %i{n}, {k}",
            f"  %ra{n}.{k} = mul i64 %r{n}.{k}, %pitch_a",
            f"  %pa{n}.{k} = getelementptr {kind}, ptr %a, i64 %ra{n}.{k}",
            f"  %rc{n}.{k} = mul i64 %r{n}.{k}, %columns",
            f"  %oc{n}.{k} = add i64 %rc{n}.{k}, %j{n}",
            f"  %pc{n}.{k} = getelementptr {kind}, ptr %c, i64 %oc{n}.{k}",
            f"  %c{n}.{k} = load {whole}, ptr %pc{n}.{k}, align {size}",
        ]
    text += [
        f"  br label %deep{n}",
        f"deep{n}:",
        f"  %k{n} = phi i64 [ 0, %cols{n} ], [ %kn{n}, %deep{n} ]",
        *(f"  %s{n}.{k} = phi {whole} [ %c{n}.{k}, %cols{n} ], [ %t{n}.{k}, %deep{n} ]" for k in r),
        f"  %rb{n} = mul i64 %k{n}, %pitch_b",
        f"  %ob{n} = add i64 %rb{n}, %j{n}",
        f"  %pb{n} = getelementptr {kind}, ptr %b, i64 %ob{n}",
        f"  %vb{n} = load {whole}, ptr %pb{n}, align {size}",
    ]
    for k in r:
        text += [
            f"  %qa{n}.{k} = getelementptr {kind}, ptr %pa{n}.{k}, i64 %k{n}",
            f"  %xa{n}.{k} = load {kind}, ptr %qa{n}.{k}, align {size}",
            f"  %ia{n}.{k} = insertelement {whole} poison, {kind} %xa{n}.{k}, i64 0",
            f"  %va{n}.{k} = shufflevector {whole} %ia{n}.{k}, {whole} poison, "
            f"<{WIDTH} x i32> zeroinitializer",
            *_added(element, kind, whole, n, k),
        ]
    text += [
        f"  %kn{n} = add i64 %k{n}, 1",
        f"  %more{n} = icmp ult i64 %kn{n}, %depth",
        f"  br i1 %more{n}, label %deep{n}, label %store{n}",
        f"store{n}:",
        *(f"  store {whole} %t{n}.{k}, ptr %pc{n}.{k}, align {size}" for k in r),
        f"  %jn{n} = add i64 %j{n}, {WIDTH}",
        f"  %wide{n} = icmp ult i64 %jn{n}, %columns",
        f"  br i1 %wide{n}, label %cols{n}, label %next{n}",
        f"next{n}:",
        f"  br label %test{n}",
    ]
    return text


def _added(element: Element, kind: str, whole: str, n: int, k: int) -> list[str]:
    if element.is_integer:
        return [
            f"  %m{n}.{k} = mul {whole} %va{n}.{k}, %vb{n}",
            f"  %t{n}.{k} = add {whole} %m{n}.{k}, %s{n}.{k}",
        ]
    suffix = "f32" if kind == "float" else "f64"
    return [
        f"  %t{n}.{k} = call {whole} @llvm.fma.v{WIDTH}{suffix}({whole} %va{n}.{k}, "
        f"{whole} %vb{n}, {whole} %s{n}.{k})"
    ]


RULES: dict[str, Rule] = {"cpu.dot": _dot}
