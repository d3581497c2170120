"""Every op has a method, derived from its declaration, that makes that op."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileir.builder
from tests.sizes import for_each
from tileir.builder import (
    F8E4M3,
    F8E8M0,
    F16,
    F32,
    I1,
    I8,
    I32,
    I64,
    Builder,
    Expr,
    pointer,
    source_name,
    tile,
)
from tileir.builder.ops import method_name
from tileir.builder.stubs import derived_ops, stub
from tileir.field import FieldKind
from tileir.op import Op, lookup
from tileir.signature import TypeVariable
from tileir.types import AddressSpace, Descriptor

ROOT = Path(__file__).resolve().parents[2]
KINDS = {kind.mnemonic: kind for kind in derived_ops()}
ROW, REALS, FLAGS = tile(I32, (8,)), tile(F32, (8,)), tile(I1, (8,))
MATRIX, SQUARE = tile(F16, (4, 8)), tile(F32, (4, 4))
PLACES, BLOCK, GENERIC = (
    tile(pointer(F32), (8,)),
    Descriptor(tile(F16, (4, 8))),
    AddressSpace.GENERIC,
)
CORNER = tile(F16, (2, 2))
ROWS = Descriptor(tile(F16, (1, 8)))
SMALL, SCALE = tile(F8E4M3, (4, 64)), tile(F8E8M0, (4, 2))

TABLE: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
    "addrspacecast": ((pointer(F32),), lambda b, p: b.addrspacecast(p, pointer(F32, GENERIC))),
    "assert": ((FLAGS,), lambda b, c: b.assert_(c, message="in range")),
    "assume": ((I1,), lambda b, c: b.assume(c)),
    "atomic_cas": ((pointer(I32),), lambda b, p: b.atomic_cas(p, 0, 1, sem="acquire")),
    "atomic_load": ((pointer(I32),), lambda b, p: b.atomic_load(p, scope="sys")),
    "atomic_rmw": ((PLACES, FLAGS), lambda b, p, m: b.atomic_rmw(p, 1, m, op="fadd")),
    "atomic_store": ((pointer(I32),), lambda b, p: b.atomic_store(p, 0)),
    "barrier": ((), lambda b: b.barrier()),
    "bitcast": ((ROW,), lambda b, x: b.bitcast(x, REALS)),
    "broadcast": ((tile(F32, (1, 8)),), lambda b, x: b.broadcast(x, tile(F32, (3, 8)))),
    "cat": ((ROW, ROW), lambda b, x, y: b.cat(x, y)),
    "clock": ((), lambda b: b.clock()),
    "constant_run": ((ROW,), lambda b, x: b.constant_run(x, values=[4])),
    "contiguous": ((ROW,), lambda b, x: b.contiguous(x, values=(4,))),
    "descriptor_gather": ((ROWS, ROW), lambda b, d, i: b.descriptor_gather(d, i, 0)),
    "descriptor_load": ((BLOCK, I32), lambda b, d, i: b.descriptor_load(d, [i, 0])),
    "descriptor_reduce": (
        (BLOCK, MATRIX, I32), lambda b, d, x, i: b.descriptor_reduce(d, x, (i, i), op="fadd"),
    ),
    "descriptor_scatter": (
        (ROWS, tile(F16, (8, 8)), ROW), lambda b, d, x, i: b.descriptor_scatter(d, x, i, 0),
    ),
    "descriptor_store": ((BLOCK, MATRIX), lambda b, d, x: b.descriptor_store(d, x, [0, 0])),
    "dot": ((MATRIX, SQUARE), lambda b, x, c: b.dot(x, x.T, c, precision="ieee")),
    "dot_scaled": (
        (SMALL, tile(F8E4M3, (64, 4)), SQUARE, SCALE),
        lambda b, x, y, c, s: b.dot_scaled(x, y, c, s, lhs="e4m3", rhs="e4m3"),
    ),
    "expand_dims": ((ROW,), lambda b, x: b.expand_dims(x, axis=1)),
    "extern_elementwise": (
        (REALS,), lambda b, x: b.extern_elementwise(REALS, [x], symbol="__nv_j0f"),
    ),
    "extract_slice": (
        (MATRIX, I32), lambda b, x, i: b.extract_slice(x, CORNER, [i, 1], strides=[1, 2]),
    ),
    "fcmp": ((REALS,), lambda b, x: b.fcmp(x, 0, predicate="uno")),
    "fence": ((), lambda b: b.fence()),
    "gather": ((REALS, ROW), lambda b, x, i: b.gather(x, i)),
    "getelementptr": ((PLACES, ROW), lambda b, p, i: b.getelementptr(p, i)),
    "global_address": ((), lambda b: b.global_address(pointer(F32), b.global_("g", F32, 4))),
    "globaltimer": ((), lambda b: b.globaltimer()),
    "histogram": ((ROW, FLAGS), lambda b, x, m: b.histogram(x, tile(I32, (16,)), m)),
    "icmp": ((ROW,), lambda b, x: b.icmp(x, 3, predicate="ult", when=True)),
    "inline_asm": (
        (REALS,), lambda b, x: b.inline_asm(REALS, x, text="neg.f32 $0, $1;", constraints="=f,f"),
    ),
    "insert_slice": (
        (MATRIX, CORNER, I32), lambda b, x, y, i: b.insert_slice(x, y, [i, 0]),
    ),
    "inttoptr": ((I64,), lambda b, x: b.inttoptr(x, pointer(F32))),
    "join": ((ROW, ROW), lambda b, x, y: b.join(x, y)),
    "load": ((PLACES, FLAGS), lambda b, p, m: b.load(p, m, 0.0, cache="cg", volatile=False)),
    "make_descriptor": (
        (pointer(F16), I32, I64),
        lambda b, p, n, s: b.make_descriptor(p, BLOCK, [(n, s), (8, 1)], padding="nan"),
    ),
    "make_range": ((), lambda b: b.make_range(ROW, start=8)),
    "multiple_of": ((ROW,), lambda b, x: b.multiple_of(x, values=[16])),
    "num_programs": ((), lambda b: b.num_programs(axis=2)),
    "print": ((ROW, F32), lambda b, x, y: b.print([x, y], prefix="values")),
    "program_id": ((), lambda b: b.program_id(axis=1)),
    "psi": ((FLAGS, REALS), lambda b, p, x: b.psi([(p, x), (~p, x)])),
    "ptrtoint": ((pointer(F32),), lambda b, p: b.ptrtoint(p, I64)),
    "reduce": ((MATRIX,), lambda b, x: b.reduce(x, axis=1, combiner="fadd")),
    "reshape": ((ROW,), lambda b, x: b.reshape(x, tile(I32, (2, 4)))),
    "scan": ((MATRIX,), lambda b, x: b.scan([x], axis=0, combiner=lambda u, v: u + v)),
    "select": ((FLAGS, REALS), lambda b, c, x: b.select(c, x, 0.0)),
    "splat": ((), lambda b: b.splat(3, ROW)),
    "split": ((tile(F32, (4, 2)),), lambda b, x: b.split(x)),
    "store": ((PLACES, FLAGS), lambda b, p, m: b.store(p, 1.5, m, eviction="last")),
    "trans": ((MATRIX,), lambda b, x: b.trans(x, order=[1, 0])),
    "unsplat": ((tile(F32, (1, 1)),), lambda b, x: b.unsplat(x)),
}  # fmt: skip
"""A call per op whose operands are not all alike: types of its values, and the call."""

CASTS = {
    "fpcast": (F32, F8E4M3), "fpext": (F16, F32), "fptosi": (F32, I8), "fptoui": (F32, I32),
    "fptrunc": (F32, F16), "sext": (I8, I32), "sitofp": (I32, F16), "trunc": (I32, I8),
    "uitofp": (I8, F32), "zext": (I1, I8),
}  # fmt: skip


def call_of(kind: type[Op]) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """Types of the values to call the method of `kind` on, and the call."""
    if kind.mnemonic in TABLE:
        return TABLE[kind.mnemonic]
    name = method_name(kind.mnemonic)
    if kind.mnemonic in CASTS:
        old, new = CASTS[kind.mnemonic]
        return (tile(old, (3, 5)),), lambda b, x: getattr(b, name)(x, tile(new, (3, 5)))
    patterns = [f.pattern for f in kind.schema if f.kind is FieldKind.OPERAND]
    assert patterns and all(isinstance(p, TypeVariable) for p in patterns), (
        f"{kind.mnemonic} needs a row"
    )
    type_ = next(t for t in (ROW, REALS) if t.element in patterns[0].allowed)  # type: ignore[union-attr]
    return (type_,) * len(patterns), lambda b, *xs: getattr(b, name)(*xs)


def target_independent() -> list[str]:
    return [name for name in KINDS if not name.startswith("gpu.")]


@for_each("mnemonic", target_independent())
def test_the_method_makes_the_op(mnemonic: str) -> None:
    kind = KINDS[mnemonic]
    types, call = call_of(kind)
    b = Builder()
    with b.function("f", None, **{f"x{i}": t for i, t in enumerate(types)}) as values:
        instance = call(b, *values)
        op = b.insertion[-1]  # type: ignore[index]
    assert type(op) is kind
    results = instance if isinstance(instance, tuple) else () if instance is None else (instance,)
    assert all(isinstance(r, Expr) for r in results)
    assert [r.value for r in results] == list(op.results)
    assert op.location is not None and op.location.file == source_name(__file__)
    b.module()


@for_each("mnemonic", target_independent())
def test_numbers_stand_wherever_a_sibling_gives_their_type(mnemonic: str) -> None:
    kind = KINDS[mnemonic]
    types, _ = call_of(kind)
    fields = kind.fields(FieldKind.OPERAND)
    alike = len(fields) > 1 and all(f.pattern == fields[0].pattern for f in fields)
    if mnemonic in TABLE or not alike:
        return
    b = Builder()
    with b.function("f", None, x=types[0]) as (x,):
        getattr(b, method_name(mnemonic))(x, *[1] * (len(fields) - 1))
        op = b.insertion[-1]  # type: ignore[index]
    assert all(v.type is types[0] for v in op.inputs)


def test_no_method_of_the_builder_hides_an_op() -> None:
    for mnemonic in KINDS:
        method = getattr(Builder(), method_name(mnemonic))
        assert method.__doc__ == KINDS[mnemonic].__doc__
        names = list(inspect.signature(method).parameters)
        assert len(names) == len(KINDS[mnemonic].schema)


def test_results_predicates_and_locations_are_named_by_keyword() -> None:
    b = Builder()
    with b.function("f", None, x=I32, p=I1) as (x, p):
        total = b.add(x, 1, result="total", when=p)
        less, more = b.icmp(x, 3, predicate="slt", result=("less", "more"))
        op = b.insertion[0]  # type: ignore[index]
    assert op.predicate is p.value
    assert [v.value.name for v in (total, less, more)] == ["total", "less", "more"]


def test_keywords_may_replace_positions() -> None:
    b = Builder()
    with b.function("f", None, x=I32) as (x,):
        b.sub(rhs=x, lhs=3)
        op = b.insertion[0]  # type: ignore[index]
    assert op.inputs[1] is x.value


def test_unknown_names_are_no_methods() -> None:
    b = Builder()
    for name in ("frobnicate", "cond_branch", "_secret"):
        with pytest.raises(AttributeError):
            getattr(b, name)


def test_an_op_made_elsewhere_is_emitted() -> None:
    b = Builder()
    with b.function("f", I32, x=I32) as (x,):
        kind = lookup("neg")
        assert kind is not None
        op = b.emit(kind(x.value))  # type: ignore[arg-type]
        b.ret(b.wrap(op.result) + 1)
    assert next(iter(b.module().functions["f"].ops)) is op


def test_the_stubs_are_up_to_date() -> None:
    file = Path(tileir.builder.__file__).with_name("ops.pyi")
    assert file.read_text() == stub(), "run: python -m tileir.builder.stubs"


def test_the_command_writes_the_stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(Path, "write_text", lambda self, text: written.append((self.name, text)))
    monkeypatch.delitem(sys.modules, "tileir.builder.stubs")
    runpy.run_module("tileir.builder.stubs", run_name="__main__")
    assert written == [("ops.pyi", stub())]


def test_words_are_literals_in_the_stub() -> None:
    """What a type checker refuses is what the builder refuses."""
    module = ast.parse(stub())
    written = {
        node.target.id: set(ast.literal_eval(node.value.slice))
        for node in module.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Subscript)
    }
    attributes = [
        (k, f) for k in derived_ops() for f in k.schema if f.attribute and f.attribute.enum
    ]
    assert attributes
    methods = {n.name: n for c in module.body if isinstance(c, ast.ClassDef) for n in c.body}
    for kind, field in attributes:
        enum = field.attribute.enum
        assert written[enum.__name__] == {member.value for member in enum}
        arguments = methods[method_name(kind.mnemonic)].args.kwonlyargs
        (argument,) = (a for a in arguments if a.arg == field.spelling)
        assert ast.unparse(argument.annotation).startswith(enum.__name__)


@pytest.mark.parametrize("shown", [dir(Builder), dir(Builder())], ids=["class", "object"])
def test_dir_shows_methods_of_ops_and_no_internals(shown: list[str]) -> None:
    ops = {method_name(name) for name in KINDS if not name.startswith("gpu.")}
    assert ops < set(shown)
    assert not [name for name in shown if name.startswith("_") and not name.startswith("__")]
    page = (ROOT / "docs/reference/builder.md").read_text()
    others = {name for name in shown if not name.startswith("__")} - ops
    assert not [name for name in sorted(others) if not re.search(rf"\b{name}\b", page)]
    assert all(hasattr(Builder(), name) for name in others)
