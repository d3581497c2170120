"""Kernels of definitions under a schedule in short, as the cost model counts them."""

from __future__ import annotations

from tileir.builder import F16, F32
from tileir.frontends.decoupled import Tensor, parse
from tileir.frontends.decoupled.fusion import group
from tileir.frontends.decoupled.nodes import Access
from tileir.frontends.decoupled.shorthand import expand
from tileir.frontends.decoupled.tensors import row_major
from tileir.frontends.decoupled.traffic import KernelWork, Use, uses_of

from . import definitions as d


def f32(*shape: int) -> Tensor:
    return row_major(F32, shape)


def f16(*shape: int) -> Tensor:
    return row_major(F16, shape)


def work(source: str, schedule: str, *arguments: Tensor | float, **types: str) -> KernelWork:
    bare = parse(source).without_schedule()
    target = parse(source).compiled_funcs[0]
    program = bare.with_schedule(f"{target}.compile(); {expand(schedule)}")
    function = program.function()
    plan = function.plan(*arguments, types=types)
    own = group(program.definitions, target)
    tensors = dict(plan.tensors)
    for func in own.members:
        tensors.setdefault(func.name, f32(*(plan.sizes[n] for n in func.labels)))
    scalars = dict.fromkeys(function.scalars, F32)
    return KernelWork(own, plan.sizes, tensors, scalars, uses_of(own, {}))


def use_of(one: KernelWork, name: str) -> Use:
    """The first use of a tensor, or of the reduction over the label `name`."""
    for use in one.uses.all:
        node = use.node
        if (isinstance(node, Access) and node.name == name) or use.label == name:
            return use
    raise KeyError(name)


def product(schedule: str, *, m: int = 128, n: int = 96, k: int = 64, **types: str) -> KernelWork:
    return work(d.MATMUL, f"matmul = {schedule}", f16(m, k), f16(k, n), **types)
