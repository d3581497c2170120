"""Shape ops, dots, program ids, and ops with effects outside of the kernel."""

from __future__ import annotations

from typing import Any

from tileir.builder import Expr
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.frontends.ttir.frame import RULES, RegionReader, rule
from tileir.frontends.ttir.lexer import string_value
from tileir.frontends.ttir.nodes import Operation
from tileir.frontends.ttir.types import value_type
from tileir.types import F8E8M0, F32, I8, Scalar, element_of, shape_of, tile


@rule("tt.get_program_id")
def _program_id(f: RegionReader, s: Operation) -> Expr:
    return f.b.program_id(axis=_axis(s))


@rule("tt.get_num_programs")
def _num_programs(f: RegionReader, s: Operation) -> Expr:
    return f.b.num_programs(axis=_axis(s))


def _axis(s: Operation) -> int:
    if s.words:
        return "xyz".index(s.words[0])
    return s.integer("axis", 0)


@rule("tt.make_range")
def _make_range(f: RegionReader, s: Operation) -> Expr:
    return f.b.arange(s.integer("start"), s.integer("end"))


@rule("tt.splat")
def _splat(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    return f.b.splat(x, s.result)


@rule("tt.unsplat")
def _unsplat(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    return f.b.unsplat(x)


@rule("tt.broadcast")
def _broadcast(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    return x.broadcast_to(*shape_of(s.result))


@rule("tt.reshape", "tt.view")
def _reshape(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    return x.reshape(*shape_of(s.result))


@rule("tt.expand_dims")
def _expand_dims(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    return x.reshape(*shape_of(s.result))


@rule("tt.trans")
def _trans(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    rank = len(shape_of(x.type))
    order = s.options.get("order") or [*range(rank - 2), rank - 1, rank - 2]
    return x.permute(*order)


@rule("tt.join")
def _join(f: RegionReader, s: Operation) -> Expr:
    return f.b.join(*f.operands(s))


@rule("tt.split")
def _split(f: RegionReader, s: Operation) -> Any:
    return f.b.split(*f.operands(s))


@rule("tt.cat")
def _cat(f: RegionReader, s: Operation) -> Expr:
    return f.b.cat(*f.operands(s))


@rule("tt.gather")
def _gather(f: RegionReader, s: Operation) -> Expr:
    return f.b.gather(*f.operands(s), axis=s.integer("axis"))


@rule("tt.histogram")
def _histogram(f: RegionReader, s: Operation) -> Expr:
    x, *mask = f.operands(s)
    return f.b.histogram(x, s.result, *mask)


# Dots -----------------------------------------------------------------------------------------


@rule("tt.dot")
def _dot(f: RegionReader, s: Operation) -> Expr:
    a, b, c = f.operands(s)
    options: dict[str, Any] = {}
    if element_of(a.type) is F32:
        allowed = "tf32" if s.options.get("allowTF32") else "ieee"
        options["precision"] = str(s.options.get("inputPrecision", allowed)).lower()
    if all(_is_f8(x) for x in (a, b)):
        options["max_imprecise"] = s.integer("maxNumImpreciseAcc", 0)
    return f.b.dot(a, b, c, **options)


def _is_f8(x: Expr) -> bool:
    kind = element_of(x.type)
    return isinstance(kind, Scalar) and kind.is_float and kind.bits == 8


@rule("tt.dot_scaled")
def _dot_scaled(f: RegionReader, s: Operation) -> Expr:
    exprs: dict[str, Expr] = {}
    places = iter("abc")
    place = scaled = ""
    for token in s.head:
        if token.text == "scale":
            scaled = f"{place}_scale"
        elif token.kind == "value":
            place = scaled or next(places)
            exprs[place], scaled = f.value(token.text), ""
            place = place[0]
    scales = [_scale(f, exprs.get(name)) for name in ("a_scale", "b_scale")]
    return f.b.dot_scaled(
        exprs["a"], exprs["b"], exprs["c"], *scales,
        lhs=_format(s, "lhs"), rhs=_format(s, "rhs"),
        lhs_k_pack=s.options.get("lhs_k_pack", True), rhs_k_pack=s.options.get("rhs_k_pack", True),
    )  # fmt: skip


def _format(s: Operation, side: str) -> Any:
    name: str = s.options[side]
    return {"fp16": "f16"}.get(name, name)


def _scale(f: RegionReader, x: Expr | None) -> Expr | None:
    """Scales of 8 bits are exponents."""
    if x is None or element_of(x.type) is not I8:
        return x
    return f.b.bitcast(x, tile(F8E8M0, shape_of(x.type)))


# Seen outside ---------------------------------------------------------------------------------


@rule("llvm.intr.assume")
def _assume(f: RegionReader, s: Operation) -> None:
    f.b.assume(*f.operands(s))


@rule("tt.print")
def _print(f: RegionReader, s: Operation) -> None:
    """One `print`, or where some operands are signed and others are not one for each."""
    operands, prefix, hexadecimal = f.operands(s), _message(s), bool(s.options.get("hex", False))
    signed = [bool(n) for n in s.options.get("isSigned") or [1] * len(operands)]
    if len(set(signed)) < 2:
        f.b.print(operands, prefix=prefix, hex=hexadecimal, unsigned=False in signed)
        return
    for i, (x, has_sign) in enumerate(zip(operands, signed, strict=True)):
        place = f"{prefix} #{i}".strip()
        f.b.print([x], prefix=place, hex=hexadecimal, unsigned=not has_sign)


@rule("tt.assert")
def _assert(f: RegionReader, s: Operation) -> None:
    f.b.assert_(*f.operands(s), message=_message(s))


def _message(s: Operation) -> str:
    result = [string_value(t.text) for t in s.head if t.kind == "string"]
    return result[0].strip().removesuffix(":") if result else ""


@rule("gpu.barrier", "ttg.barrier")
def _barrier(f: RegionReader, s: Operation) -> None:
    f.b.barrier()


@rule("tt.elementwise_inline_asm")
def _inline_asm(f: RegionReader, s: Operation) -> Any:
    text = next((string_value(t.text) for t in s.head if t.kind == "string"), None)
    if text is None:
        raise UnsupportedStatement("inline assembly has no text")
    if text.startswith("griddepcontrol.") and not s.operands:
        return _dependency(f, s, text)
    return f.b.inline_asm(
        [value_type(t) for t in s.result_types], f.operands(s), text=text,
        constraints=str(s.options["constraints"]),
        pure=bool(s.options.get("pure", False)), pack=s.integer("packed_element", 1),
    )  # fmt: skip


def _dependency(f: RegionReader, s: Operation, text: str) -> Expr:
    """`griddepcontrol`, as releases before 3.9 write `tt.grid_dependency_wait` and
    `tt.grid_dependency_launch_dependents`; the result means nothing."""
    RULES["tt.grid_dependency_wait" if ".wait" in text else _LAUNCH](f, s)
    return f.b.constant(s.result, 0)


_LAUNCH = "tt.grid_dependency_launch_dependents"
