"""Loops, conditions, branches, calls; reductions and scans, whose regions are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.builder import Expr
from tileir.frontends.ttir.block_pointers import NamedValue, assemble, part_types, parts
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.frontends.ttir.frame import RegionReader, rule
from tileir.frontends.ttir.nodes import Operation, Region


@rule("scf.for")
def _for(f: RegionReader, s: Operation) -> list[NamedValue]:
    b, names = f.b, s.operands
    index, (low, high, step) = names[0], map(f.value, names[1:4])
    carried, begun = names[4::2], [f.lookup(n) for n in names[5::2]]
    kinds = [x.type for x in begun]
    loop = b.block("loop", low.type, *part_types(kinds))
    body, done = b.block("body"), b.block("done")
    b.br(loop(low, *parts(begun)))
    b.enter(loop)
    i, *exprs = loop.parameters
    state = assemble(kinds, exprs)
    relation, promise = ("ult", "nuw") if "unsigned" in s.words else ("slt", "nsw")
    b.cond_br(b.icmp(i, high, predicate=relation)[0], body, done)
    b.enter(body)
    following = f.inside([index, *carried], [i, *state]).run_region(s.regions[0])
    b.br(loop(b.add(i, step, overflow=promise), *following), **_requests(f, s))
    b.enter(done)
    return state


def _requests(f: RegionReader, s: Operation) -> dict[str, int | bool]:
    """The attributes of a loop, including the assumption of Triton's software pipeliner.

    The pipeliner orders the ops of an innermost `scf.for` only by their values, and moves loads
    that dots need ahead of the stores of the loop (lib/Dialect/TritonGPU/Transforms/Pipeliner). In
    a loop that states its stages, it moves other loads, too.
    """
    requests: dict[str, int | bool] = {}
    if "tt.num_stages" in s.options:
        requests["stages"] = max(s.integer("tt.num_stages"), 1)
    stages = requests.get("stages", f.num_stages)
    if s.name == "scf.for" and stages > 1 and not _has_loop(s.regions[0]):
        requests["independent_loads"] = True
        if "stages" in requests:
            requests["independent_iterations"] = True
    if "tt.loop_unroll_factor" in s.options:
        requests["unroll"] = max(s.integer("tt.loop_unroll_factor"), 1)
    return requests


def _has_loop(region: Region) -> bool:
    statements = [s for section in region.sections for s in section.statements]
    return any(
        s.name in ("scf.for", "scf.while") or any(map(_has_loop, s.regions)) for s in statements
    )


@rule("scf.while")
def _while(f: RegionReader, s: Operation) -> list[NamedValue]:
    b, before, after = f.b, *s.regions
    names, begun = s.operands[::2], [f.lookup(n) for n in s.operands[1::2]]
    kinds = [x.type for x in begun]
    loop = b.block("loop", *part_types(kinds))
    body, done = b.block("body"), b.block("done")
    b.br(loop(*parts(begun)))
    b.enter(loop)
    going, *exprs = f.inside(names, assemble(kinds, loop.parameters)).run_region(before)
    passed = assemble([kind for _, kind in after.parameters], exprs)
    b.cond_br(going, body, done)
    b.enter(body)
    inner = f.inside([n for n, _ in after.parameters], passed)
    b.br(loop(*inner.run_region(after)), **_requests(f, s))
    b.enter(done)
    return passed


@rule("scf.if")
def _if(f: RegionReader, s: Operation) -> list[NamedValue]:
    b = f.b
    (condition,) = f.operands(s)
    join = b.block("join", *part_types(s.result_types))
    then = b.block("then")
    otherwise = b.block("else") if len(s.regions) > 1 else None
    b.cond_br(condition, then, otherwise or join)
    for block, region in zip((then, otherwise), s.regions, strict=False):
        assert block is not None
        b.enter(block)
        b.br(join(*f.inside().run_region(region)))
    b.enter(join)
    return assemble(s.result_types, join.parameters)


@rule("cf.br")
def _br(f: RegionReader, s: Operation) -> None:
    ((block, arguments),) = _successors(f, s)
    f.b.br(block(*arguments))


@rule("cf.cond_br")
def _cond_br(f: RegionReader, s: Operation) -> None:
    (then, first), (otherwise, second) = _successors(f, s)
    condition = f.value(s.operands[0])
    if then is otherwise:
        pairs = zip(first, second, strict=True)
        f.b.br(then(*(x if x is y else f.b.select(condition, x, y) for x, y in pairs)))
        return
    f.b.cond_br(condition, then(*first), otherwise(*second))


def _successors(f: RegionReader, s: Operation) -> list[tuple[Any, list[Expr]]]:
    """Successor blocks, each with its arguments."""
    successors: list[tuple[Any, list[Expr]]] = []
    for token in s.head:
        if token.kind == "block":
            if token.text not in f.blocks:
                raise UnsupportedStatement(f"there is no block {token.text}", "TIR1002")
            successors.append((f.blocks[token.text], []))
        elif token.kind == "value" and successors:
            successors[-1][1].extend(parts([f.lookup(token.text)]))
    return successors


@rule("tt.return")
def _return(f: RegionReader, s: Operation) -> None:
    f.b.ret(*f.operands(s))


@rule("tt.call")
def _call(f: RegionReader, s: Operation) -> Any:
    return f.b.call(s.symbol, *f.operands(s))


# Reductions and scans -------------------------------------------------------------------------

_NAMED = {
    "arith.addi": "add", "arith.muli": "mul", "arith.andi": "and", "arith.ori": "or",
    "arith.xori": "xor", "arith.minsi": "smin", "arith.maxsi": "smax", "arith.minui": "umin",
    "arith.maxui": "umax", "arith.addf": "fadd", "arith.mulf": "fmul",
    "arith.minimumf": "fminimum", "arith.maximumf": "fmaximum", "arith.minnumf": "fminnum",
    "arith.maxnumf": "fmaxnum",
}  # fmt: skip
"""Combiners that have a name, by the op that they are."""


@rule("tt.reduce")
def _reduce(f: RegionReader, s: Operation) -> Any:
    values, axis = f.operands(s), s.integer("axis")
    return f.b.reduce(values, axis=axis, combiner=_combiner(f, s.regions[0]))


@rule("tt.scan")
def _scan(f: RegionReader, s: Operation) -> Any:
    reverse = bool(s.options.get("reverse", False))
    return f.b.scan(
        f.operands(s), axis=s.integer("axis"), combiner=_combiner(f, s.regions[0]), reverse=reverse
    )


def _combiner(f: RegionReader, region: Region) -> str | Callable[..., Any]:
    """The name of what a region does with its two parameters, or the region as a function."""
    names = [n for n, _ in region.parameters]
    if len(region.statements) == 2:
        op, last = region.statements
        plain = last.operands == [n for n, _ in op.results]
        if op.name in _NAMED and sorted(op.operands) == sorted(names) and plain:
            return _NAMED[op.name]

    def combine(*places: Expr) -> tuple[Expr, ...]:
        return tuple(f.alone(names, places).run_region(region))

    return combine
