"""Rules that write each op in TTIR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileir.frontends.ttir.export.printer import FunctionPrinter, escape, rule
from tileir.frontends.ttir.op_names import (
    ADDRESS_CASTS,
    ATOMIC_OPERATIONS,
    CASTS,
    ELEMENTWISE,
)
from tileir.types import F32, F64, Scalar, Tile, element_of, shape_of
from tileir.values import Constant, Operand

_ELEMENTWISE = {mnemonic: name for name, mnemonic in ELEMENTWISE.items()}
_CASTS = {mnemonic: name for name, mnemonic in CASTS.items()}
_POINTER_CASTS = {
    "bitcast": "tt.bitcast", **{mnemonic: name for name, mnemonic in ADDRESS_CASTS.items()},
}  # fmt: skip
_ATOMIC = {operation: name for name, operation in ATOMIC_OPERATIONS.items()}

_MATH = frozenset({"exp", "exp2", "log", "log2", "sin", "cos", "erf", "sqrt", "rsqrt"})
"""Functions that Triton's CUDA compiler has as ops."""

_APPROXIMATE = frozenset({"exp", "exp2", "rsqrt"})
"""The functions that TTIR approximates in f32 and has no accurate op for."""

_LIBDEVICE = {
    **{name: name for name in (
        "exp", "exp2", "rsqrt", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "erfc", "expm1", "log1p", "log10", "cbrt", "atan2", "pow", "copysign",
    )},
    "frint": "rint", "fround": "round", "ftrunc": "trunc",
}  # fmt: skip


def _same(p: FunctionPrinter, op: Any) -> str:
    return f"{_ELEMENTWISE[op.mnemonic]} {p.values(op.inputs)} : {p.type(op.results[0].type)}"


@rule(*_ELEMENTWISE)
def _elementwise(p: FunctionPrinter, op: Any) -> str:
    _check_rounding(p, op)
    flags = getattr(op, "overflow", None)
    text = _same(p, op)
    words = [] if flags is None else [w for w in flags.value.split("_") if w in ("nsw", "nuw")]
    if words:
        text = text.replace(" : ", f" overflow<{', '.join(words)}> : ", 1)
    return text


def _check_rounding(p: FunctionPrinter, op: Any) -> None:
    """Raises ExportError for a rounding that TTIR cannot state."""
    rounding = getattr(getattr(op, "rounding", None), "value", None)
    usual = "zero" if op.mnemonic in ("sdiv", "udiv", "srem", "urem") else "rn"
    if rounding not in (None, usual) or getattr(op, "ftz", False):
        raise p.fail(f"{op.mnemonic} with rounding {rounding}: TTIR has none to state")


@rule("neg")
def _neg(p: FunctionPrinter, op: Any) -> str:
    kind = op.results[0].type
    return f"arith.subi {p.literal(Constant(kind, 0))}, {p.value(op.value)} : {p.type(kind)}"


@rule("fneg")
def _fneg(p: FunctionPrinter, op: Any) -> str:
    """-0.0 - x: Triton has no op that negates floats."""
    kind = op.results[0].type
    zero = Constant(kind, 1 << (element_of(kind).bits - 1))  # type: ignore[union-attr]
    return f"arith.subf {p.literal(zero)}, {p.value(op.value)} : {p.type(kind)}"


@rule("fdiv")
def _fdiv(p: FunctionPrinter, op: Any) -> str:
    _check_rounding(p, op)
    kind = op.results[0].type
    accurate = element_of(kind) is F32 and op.fast.value in ("none", "contract")
    name = "tt.precise_divf" if accurate else "arith.divf"
    return f"{name} {p.values(op.inputs)} : {p.type(kind)}"


@rule(*_MATH, *_LIBDEVICE)
def _math(p: FunctionPrinter, op: Any) -> str:
    kind, name = op.results[0].type, op.mnemonic
    element = element_of(kind)
    if element not in (F32, F64):
        raise p.fail(f"{name} of {element}: Triton computes it in f32 and f64")
    fast = getattr(op, "fast", None)
    approximate = fast is not None and fast.value in ("approx", "fast")
    exact = element is F32 and not approximate
    if exact and name == "sqrt":
        return f"tt.precise_sqrt {p.value(op.value)} : {p.type(kind)}"
    if name in _MATH and not (exact and name in _APPROXIMATE):
        return f"math.{name} {p.value(op.value)} : {p.type(kind)}"
    symbol = f"__nv_{_LIBDEVICE[name]}{'f' if element is F32 else ''}"
    return _extern(p, symbol, op.inputs, kind)


def _extern(
    p: FunctionPrinter, symbol: str, operands: Sequence[Operand], kind: Any, library: str = ""
) -> str:
    kinds = ", ".join(p.type(x.type) for x in operands)
    library = escape(library)
    return (
        f"tt.extern_elementwise {p.values(operands)} "
        f'{{libname = "{library}", libpath = "", pure = true, symbol = "{symbol}"}} : '
        f"({kinds}) -> {p.type(kind)}"
    )


@rule("extern_elementwise")
def _extern_elementwise(p: FunctionPrinter, op: Any) -> str:
    if not op.pure:
        raise p.fail(f"{op.symbol} has effects: Triton removes functions of libraries")
    return _extern(p, op.symbol, op.values, op.results[0].type, op.library)


# Comparisons and conversions ------------------------------------------------------------------


@rule("icmp", "fcmp")
def _compare(p: FunctionPrinter, op: Any) -> str:
    if not isinstance(element_of(op.lhs.type), Scalar):
        raise p.fail("TTIR compares no pointers")
    name = "arith.cmpi" if op.mnemonic == "icmp" else "arith.cmpf"
    return f"{name} {op.predicate_.value}, {p.values(op.inputs)} : {p.type(op.lhs.type)}"


@rule("select")
def _select(p: FunctionPrinter, op: Any) -> str:
    condition, kind = op.condition.type, p.type(op.results[0].type)
    kinds = f"{p.type(condition)}, {kind}" if isinstance(condition, Tile) else kind
    return f"arith.select {p.values(op.inputs)} : {kinds}"


@rule(*_CASTS)
def _cast(p: FunctionPrinter, op: Any) -> str:
    kinds = f"{p.type(op.value.type)} to {p.type(op.results[0].type)}"
    return f"{_CASTS[op.mnemonic]} {p.value(op.value)} : {kinds}"


@rule(*_POINTER_CASTS, "splat", "broadcast", "unsplat", "reshape", "split")
def _move(p: FunctionPrinter, op: Any) -> str:
    name = _POINTER_CASTS.get(op.mnemonic, f"tt.{op.mnemonic}")
    if op.mnemonic == "unsplat" and p.newer < (3, 6):
        raise p.fail(f"Triton {p.release} has no op for unsplat")
    if op.mnemonic == "broadcast" and len(shape_of(op.value.type)) != len(op.results[0].type.shape):
        raise p.fail("TTIR broadcasts tiles of one rank")
    if op.mnemonic == "unsplat":
        return f"tt.unsplat {p.value(op.value)} : {p.type(op.value.type)}"
    return f"{name} {p.value(op.value)} : {p.type(op.value.type)} -> {p.type(op.results[0].type)}"


_ROUNDINGS = {"rn": "rtne", "rz": "rtz"}


@rule("fpext", "fptrunc", "fpcast")
def _float_cast(p: FunctionPrinter, op: Any) -> str:
    ins, outs = op.value.type, op.results[0].type
    rounding = getattr(getattr(op, "rounding", None), "value", "rn")
    narrow = 8 in (element_of(ins).bits, element_of(outs).bits)  # type: ignore[union-attr]
    if op.mnemonic == "fpext" and not narrow:
        return f"arith.extf {p.value(op.value)} : {p.type(ins)} to {p.type(outs)}"
    if op.mnemonic == "fptrunc" and not narrow and rounding == "rn":
        return f"arith.truncf {p.value(op.value)} : {p.type(ins)} to {p.type(outs)}"
    if rounding not in _ROUNDINGS:
        raise p.fail(f"TTIR has no rounding {rounding}")
    word = f", rounding = {_ROUNDINGS[rounding]}" * (op.mnemonic != "fpext")
    return f"tt.fp_to_fp {p.value(op.value)}{word} : {p.type(ins)} -> {p.type(outs)}"


# Shapes ---------------------------------------------------------------------------------------


@rule("make_range")
def _make_range(p: FunctionPrinter, op: Any) -> str:
    kind = op.results[0].type
    if str(kind.element) != "i32" or len(kind.shape) != 1:
        raise p.fail(f"TTIR has ranges of one axis of i32, not {kind}")
    start = op.start
    return (
        f"tt.make_range {{end = {start + kind.size} : i32, start = {start} : i32}} : {p.type(kind)}"
    )


@rule("expand_dims")
def _expand_dims(p: FunctionPrinter, op: Any) -> str:
    kinds = f"{p.type(op.value.type)} -> {p.type(op.results[0].type)}"
    return f"tt.expand_dims {p.value(op.value)} {{axis = {op.axis} : i32}} : {kinds}"


@rule("trans")
def _trans(p: FunctionPrinter, op: Any) -> str:
    order = ", ".join(map(str, op.order))
    kinds = f"{p.type(op.value.type)} -> {p.type(op.results[0].type)}"
    return f"tt.trans {p.value(op.value)} {{order = array<i32: {order}>}} : {kinds}"


@rule("join")
def _join(p: FunctionPrinter, op: Any) -> str:
    return f"tt.join {p.values(op.inputs)} : {p.type(op.low.type)} -> {p.type(op.results[0].type)}"


@rule("cat")
def _cat(p: FunctionPrinter, op: Any) -> str:
    """Joined, and the joined axis moved ahead: `tt.cat` may change the order of elements."""
    kind = op.low.type
    if op.axis or len(kind.shape) != 1 or kind.shape != op.high.type.shape:
        raise p.fail("tiles of one extent are concatenated along their only axis")
    pairs, turned = Tile(kind.element, (kind.size, 2)), Tile(kind.element, (2, kind.size))
    first, second = p.fresh(), p.fresh()
    p.before += [
        f"{first} = tt.join {p.values(op.inputs)} : {p.type(kind)} -> {p.type(pairs)}",
        f"{second} = tt.trans {first} {{order = array<i32: 1, 0>}} : "
        f"{p.type(pairs)} -> {p.type(turned)}",
    ]
    return f"tt.reshape {second} : {p.type(turned)} -> {p.type(op.results[0].type)}"


@rule("gather")
def _gather(p: FunctionPrinter, op: Any) -> str:
    kinds = f"({p.type(op.source.type)}, {p.type(op.index.type)}) -> {p.type(op.results[0].type)}"
    return (
        f"tt.gather {p.value(op.source)}[{p.value(op.index)}] {{axis = {op.axis} : i32}} : {kinds}"
    )


@rule("histogram")
def _histogram(p: FunctionPrinter, op: Any) -> str:
    if op.mask is not None and p.newer < (3, 4):
        raise p.fail(f"Triton {p.release} has no mask of histogram")
    kinds = f"{p.type(op.value.type)} -> {p.type(op.results[0].type)}"
    return f"tt.histogram {p.values(op.inputs)} : {kinds}"


@rule("getelementptr")
def _getelementptr(p: FunctionPrinter, op: Any) -> str:
    kinds = f"{p.type(op.pointer.type)}, {p.type(op.index.type)}"
    return f"tt.addptr {p.values(op.inputs)} : {kinds}"


# Program, memory ------------------------------------------------------------------------------


@rule("program_id", "num_programs")
def _program(p: FunctionPrinter, op: Any) -> str:
    name = "tt.get_program_id" if op.mnemonic == "program_id" else "tt.get_num_programs"
    return f"{name} {'xyz'[op.axis]} : i32"


@rule("contiguous", "multiple_of", "constant_run")
def _hint(p: FunctionPrinter, op: Any) -> str:
    """The value itself: TTIR has these promises as attributes of the op that defines it."""
    p.names[op.results[0]] = p.value(op.value)
    return ""


@rule("assume")
def _assume(p: FunctionPrinter, op: Any) -> str:
    return f"llvm.intr.assume {p.value(op.condition)} : i1"


@rule("load")
def _load(p: FunctionPrinter, op: Any) -> str:
    words = " {isVolatile = true}" if op.volatile else ""
    return f"tt.load {p.values(op.inputs)}{words} : {p.type(op.pointer.type)}"


@rule("store")
def _store(p: FunctionPrinter, op: Any) -> str:
    if op.volatile:
        raise p.fail("TTIR has no volatile stores")
    return f"tt.store {p.values(op.inputs)} : {p.type(op.pointer.type)}"


@rule("atomic_rmw")
def _atomic_rmw(p: FunctionPrinter, op: Any) -> str:
    name = _ATOMIC.get(op.op.value)
    if name is None:
        raise p.fail(f"TTIR has no atomic {op.op.value}")
    return f"tt.atomic_rmw {name}, {_atomic(p, op)}"


@rule("atomic_cas")
def _atomic_cas(p: FunctionPrinter, op: Any) -> str:
    if op.mask is not None:
        raise p.fail("TTIR has no mask of atomic_cas")
    return f"tt.atomic_cas {_atomic(p, op)}"


@rule("atomic_load", "atomic_store")
def _atomic_access(p: FunctionPrinter, op: Any) -> str:
    if p.newer < (3, 9):
        raise p.fail(f"Triton {p.release} has no op for {op.mnemonic}")
    if op.mnemonic == "atomic_load":
        return f"tt.atomic_load {_atomic(p, op)}"
    words = f"{op.sem.value}, {op.scope.value}, {p.values(op.inputs)}"
    return f"tt.atomic_store {words} : {p.type(op.pointer.type)}"


def _atomic(p: FunctionPrinter, op: Any) -> str:
    kinds = ", ".join(p.type(x.type) for x in op.inputs)
    result = p.type(op.results[0].type)
    return f"{op.sem.value}, {op.scope.value}, {p.values(op.inputs)} : ({kinds}) -> {result}"


@rule("make_descriptor")
def _make_descriptor(p: FunctionPrinter, op: Any) -> str:
    extents, strides = op.dimensions[::2], op.dimensions[1::2]
    for operand, name in [*((x, "i32") for x in extents), *((x, "i64") for x in strides)]:
        if str(operand.type) != name:
            raise p.fail("TTIR has descriptors with extents in i32 and strides in i64")
    if op.padding.value not in ("zero", "nan") or (op.padding.value == "nan" and p.newer < (3, 5)):
        raise p.fail(f"Triton {p.release} has no padding {op.padding.value}")
    padding = " {padding = 2 : i32}" if op.padding.value == "nan" else ""
    kind = op.results[0].type
    base = (
        p.type(op.base.type).removeprefix("!tt.ptr") if p.newer >= (3, 4) else p.type(op.base.type)
    )
    numbers = f"[{p.values(extents)}], [{p.values(strides)}]{padding}"
    return f"tt.make_tensor_descriptor {p.value(op.base)}, {numbers} : {base}, {p.block(kind)}"


def _descriptor_op(p: FunctionPrinter, action: str) -> str:
    return f"tt.{'experimental_' * (p.newer < (3, 4))}descriptor_{action}"


@rule("descriptor_load")
def _descriptor_load(p: FunctionPrinter, op: Any) -> str:
    kinds = f"{p.type(op.descriptor.type)} -> {p.type(op.results[0].type)}"
    name = _descriptor_op(p, "load")
    return f"{name} {p.value(op.descriptor)}[{p.values(op.indices)}] : {kinds}"


@rule("descriptor_store")
def _descriptor_store(p: FunctionPrinter, op: Any) -> str:
    place = f"{p.value(op.descriptor)}[{p.values(op.indices)}], {p.value(op.value)}"
    kinds = f"{p.type(op.descriptor.type)}, {p.type(op.value.type)}"
    return f"{_descriptor_op(p, 'store')} {place} : {kinds}"


# Matmuls, reductions --------------------------------------------------------------------------


@rule("dot")
def _dot(p: FunctionPrinter, op: Any) -> str:
    a, b, c = (x.type for x in (op.a, op.b, op.c))
    if not (op.lhs_signed and op.rhs_signed):
        raise p.fail("TTIR has no dot of unsigned integers")
    words = f", inputPrecision = {op.precision.value}" if element_of(a) is F32 else ""
    if op.max_imprecise:
        words += f" {{maxNumImpreciseAcc = {op.max_imprecise} : i32}}"
    return f"tt.dot {p.values(op.inputs)}{words} : {p.type(a)} * {p.type(b)} -> {p.type(c)}"


@rule("dot_scaled")
def _dot_scaled(p: FunctionPrinter, op: Any) -> str:
    sides = ((op.a, op.a_scale), (op.b, op.b_scale))
    operands = ", ".join(
        p.value(x) if s is None else f"{p.value(x)} scale {p.value(s)}" for x, s in sides
    )
    kinds = " * ".join(
        p.type(x.type) if s is None else f"{p.type(x.type)}, {p.type(s.type)}" for x, s in sides
    )
    formats = [{"f16": "fp16"}.get(f.value, f.value) for f in (op.lhs, op.rhs)]
    packs = ", ".join(
        f"{side}_k_pack = false"
        for side, pack in (("lhs", op.lhs_k_pack), ("rhs", op.rhs_k_pack))
        if not pack
    )
    options = f"fastMath = false{', ' * bool(packs)}{packs}"
    return (
        f"tt.dot_scaled {operands}, {p.value(op.c)} lhs = {formats[0]} rhs = {formats[1]} "
        f"{{{options}}} : {kinds} -> {p.type(op.results[0].type)}"
    )


@rule("reduce", "scan")
def _combine(p: FunctionPrinter, op: Any) -> str:
    """The region of a combiner: an op, or the body of a function of one block."""
    count = len(op.values)
    kinds = [p.type(element_of(x.type)) for x in op.values]
    inner = FunctionPrinter(p.module, p.function, p.release, dict(p.names), op=op, prefix="%d")
    names = [f"%a{i}" for i in range(2 * count)]
    name = getattr(op.combiner, "value", op.combiner)
    body, results = _combiner(p, inner, str(name), names, kinds)
    arguments = ", ".join(f"{n}: {k}" for n, k in zip(names, kinds * 2, strict=True))
    options = f"axis = {op.axis} : i32"
    if op.mnemonic == "scan":
        options += f", reverse = {str(op.reverse).lower()}"
    ins, outs = (", ".join(p.type(x.type) for x in xs) for xs in (op.values, op.results))
    lines = [
        f'"tt.{op.mnemonic}"({p.values(op.values)}) <{{{options}}}> ({{',
        f"    ^bb0({arguments}):",
        *(f"      {line}" for line in (*inner.head, *body)),
        f"      tt.{op.mnemonic}.return {', '.join(results)} : {', '.join(kinds)}",
        f"    }}) : ({ins}) -> {f'({outs})' if count > 1 else outs}",
    ]
    return "\n".join(lines)


def _combiner(
    p: FunctionPrinter, inner: FunctionPrinter, name: str, names: list[str], kinds: list[str]
) -> tuple[list[str], list[str]]:
    """The lines of the combiner, and the names of what it gives."""
    if name in _ELEMENTWISE:
        return [f"%k = {_ELEMENTWISE[name]} {', '.join(names)} : {kinds[0]}"], ["%k"]
    function = p.module.functions.get(name)
    if function is None or len(function.blocks) != 1:
        raise p.fail(f"the combiner {name} is not a function of one block")
    inner.names.update({x.value: n for x, n in zip(function.parameters, names, strict=True)})
    *ops, last = function.entry.ops
    lines = [line for op in ops for line in inner.op_lines(op)]
    return lines, [inner.value(v) for v in last.inputs]


# Control flow and visible effects --------------------------------------------------------------


@rule("br")
def _br(p: FunctionPrinter, op: Any) -> str:
    return f"cf.br {p.successor(op.target)}"


@rule("cond_br")
def _cond_br(p: FunctionPrinter, op: Any) -> str:
    return (
        f"cf.cond_br {p.value(op.condition)}, {p.successor(op.then)}, {p.successor(op.otherwise)}"
    )


@rule("ret")
def _ret(p: FunctionPrinter, op: Any) -> str:
    kinds = ", ".join(p.type(v.type) for v in op.values)
    return f"tt.return {p.values(op.values)} : {kinds}" if kinds else "tt.return"


@rule("call")
def _call(p: FunctionPrinter, op: Any) -> str:
    ins, outs = (", ".join(p.type(x.type) for x in xs) for xs in (op.arguments, op.results))
    if len(op.results) > 1:
        raise p.fail("a call with several results is not written")
    return f"tt.call @{op.callee}({p.values(op.arguments)}) : ({ins}) -> {outs or '()'}"


@rule("assert")
def _assert(p: FunctionPrinter, op: Any) -> str:
    message, kind = escape(op.message), p.type(op.condition.type)
    return f'tt.assert {p.value(op.condition)}, "{message}" : {kind}'


@rule("print")
def _print(p: FunctionPrinter, op: Any) -> str:
    kinds = ", ".join(p.type(x.type) for x in op.values)
    signs = ", ".join("0" if op.unsigned else "1" for _ in op.values)
    options = f"hex = {str(op.hex).lower()}, isSigned = array<i32: {signs}>"
    operands = f" : {p.values(op.values)} : {kinds}" if op.values else ""
    return f'tt.print " {escape(op.prefix)}: " {{{options}}}{operands}'


@rule("inline_asm")
def _inline_asm(p: FunctionPrinter, op: Any) -> str:
    text, constraints = map(escape, (op.text, op.constraints))
    options = f'constraints = "{constraints}", packed_element = {op.pack} : i32'
    ins, outs = (", ".join(p.type(x.type) for x in xs) for xs in (op.values, op.results))
    return (
        f'tt.elementwise_inline_asm "{text}" {{{options}, pure = {str(op.pure).lower()}}} '
        f"{p.values(op.values)} : {ins} -> {outs}"
    )


@rule("barrier")
def _barrier(p: FunctionPrinter, op: Any) -> str:
    return "gpu.barrier"
