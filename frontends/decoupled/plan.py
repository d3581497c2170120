"""Plans: the module and the launches of a kernel definition, for tensors of given sizes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tileir import Module
from tileir.builder import F32, F64, I32, I64, Builder
from tileir.executor import executor, on_host
from tileir.frontends.decoupled.element_types import kind_of
from tileir.frontends.decoupled.errors import launch_error
from tileir.frontends.decoupled.fusion import Group, groups
from tileir.frontends.decoupled.loop_nest import Launch, buffers, build
from tileir.frontends.decoupled.model import Definitions, Func
from tileir.frontends.decoupled.nodes import ScalarInput, accesses, walk
from tileir.frontends.decoupled.split_reductions import cut
from tileir.frontends.decoupled.tensors import Tensor, row_major
from tileir.types import Scalar


@attrs.frozen
class FuncPlan:
    """The kernels that compute a Func, in order.

    The kernels work on `tensors` of the caller and on the tensors `results` and `scratch`, which
    are allocated for each call.
    """

    name: str
    module: Module
    launches: tuple[Launch, ...]
    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    scratch: tuple[str, ...]

    @property
    def result(self) -> Tensor:
        """The tensor that the plan computes."""
        return self.tensors[self.name]

    def run(self, bound: Mapping[str, Any], on: str | None, out: Any = None, **options: Any) -> Any:
        """Compute the result for the arrays and numbers `bound`, by name, and return it.

        `on` is the executor; None is the CPU, or the interpreter for kernels that the CPU backend
        does not support. `out` is the array for the result, if given. Raises LaunchError and the
        errors of the executor.
        """
        like = next((v for v in bound.values() if hasattr(v, "new_empty")), None)
        values = {n: _allocate(self.tensors[n], like) for n in self.scratch}
        values[self.name] = _allocate(self.result, like) if out is None else out
        values.update(bound)
        for launch in self.launches:
            machine = executor(on or on_host(self.module, launch.kernel))
            pairs = zip(launch.parameters, launch.arguments, strict=True)
            arguments = {n: values[g] for n, g in pairs}
            machine.launch(self.module, launch.kernel, launch.instances, arguments, **options)
        return values[self.name]


def _allocate(tensor: Tensor, like: Any) -> Any:
    """New memory, on the device of `like` where that is a tensor of torch."""
    if like is None:
        return np.empty(tensor.shape, tensor.dtype)
    dtype = getattr(sys.modules["torch"], tensor.dtype.name)
    return like.new_empty(tensor.shape, dtype=dtype)


def plan(
    definitions: Definitions,
    name: str,
    inputs: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
    sizes: Mapping[str, int],
    types: Mapping[str, Scalar],
    out: Tensor | None = None,
) -> FuncPlan:
    """Plan a Func.

    `types` are the element types of Funcs, f32 by default. Raises CompilationError, BuildError and
    LaunchError.
    """
    needed = groups(definitions, name)
    funcs = [f for g in needed for f in g.funcs]
    extents = sizes_of(funcs, inputs, sizes)
    tensors: dict[str, Tensor] = dict(inputs)
    cuts = [cut(g, extents, definitions.shapes) for g in needed]
    sizes_so_far = dict(extents)
    for one in cuts:
        sizes_so_far.update(one.sizes)
    made_of = [g for c in cuts for g in c.groups]
    _add_results(tensors, made_of, sizes_so_far, types, scalars)
    if out is not None:
        _check_out(tensors[name], out)
        tensors[name] = out
    b, launches = Builder(), list[Launch]()
    for group in made_of:
        fused = buffers(group, sizes_so_far, F32)
        tensors.update({f"{group.root.name}/{n}": t for n, t in fused.items()})
        label = _symbol(group.root.name, [launch.kernel for launch in launches])
        local = {**tensors, **fused}
        result = build(b, label, group, sizes_so_far, local, scalars, definitions.shapes)
        names = tuple(f"{group.root.name}/{n}" if n in fused else n for n in result.parameters)
        launches.append(attrs.evolve(result, arguments=names))
    scratch = tuple(n for n in tensors if n not in inputs and n != name)
    return FuncPlan(
        name, b.module(), tuple(launches), sizes_so_far, tensors, tuple(inputs), scratch
    )


def _symbol(name: str, used: Sequence[str]) -> str:
    """The name of a kernel."""
    symbol = name.replace(".", "_split_")
    while symbol in used:
        symbol += "_"
    return symbol


def _add_results(
    tensors: dict[str, Tensor],
    groups: Sequence[Group],
    sizes: Mapping[str, int],
    types: Mapping[str, Scalar],
    scalars: Mapping[str, Scalar],
) -> None:
    """The tensors that kernels write."""
    for group in groups:
        root = group.root
        if root.name not in tensors:
            element_of_tensor = {**{n: t.element for n, t in tensors.items()}, **scalars}
            kind = kind_of(root.value, element_of_tensor, {f.name: f.value for f in group.members})
            required = types.get(root.name) or (F64 if kind is F64 else F32)
            if "." in root.name and kind in (I32, I64, F64):
                required = kind
            shape = [sizes[label] for label in root.labels]
            tensors[root.name] = row_major(required, shape)  # type: ignore[arg-type]


def _check_out(expected: Tensor, out: Tensor) -> None:
    if out.shape != expected.shape:
        raise launch_error(f"the result has shape {expected.shape}, not {out.shape}")


def scalar_names(definitions: Definitions, name: str) -> tuple[str, ...]:
    """Scalar inputs that a Func needs, as declared."""
    funcs = [f for g in groups(definitions, name) for f in g.funcs]
    used = {n.name for f in funcs for n in walk(f.value) if isinstance(n, ScalarInput)}
    return tuple(n for n in definitions.names("SIn") if n in used)


def input_names(definitions: Definitions, name: str) -> tuple[str, ...]:
    """Tensors that a Func needs from the caller, as declared."""
    read = {n for g in groups(definitions, name) for n in g.reads}
    return tuple(n for n in definitions.names("In") if n in read)


# Sizes --------------------------------------------------------------------------------------------


def sizes_of(
    funcs: Sequence[Func], tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
) -> dict[str, int]:
    """The size of every label, from arrays and `sizes`.

    A Func that is read with other labels than those of its definition determines the sizes of its
    own labels, too. Raises LaunchError.
    """
    result = dict(sizes)
    shapes = {f.name: f.labels for f in funcs}
    while True:
        before = len(result)
        for func in funcs:
            for access in accesses(func.value):
                for label, size in _stated_sizes(
                    access.labels, access.name, tensors, shapes, result
                ):
                    if result.setdefault(label, size) != size:
                        message = f"{label} is {result[label]}, but {size} in {access.name}"
                        raise launch_error(message, access.place)
        if len(result) == before:
            break
    for func in funcs:
        for label in (*func.labels, *(n for a in accesses(func.value) for n in a.labels)):
            if label not in result:
                raise launch_error(f"the size of {label} is unknown: pass {label}=", func.place)
    return result


def complete_sizes(funcs: Sequence[Func], sizes: Mapping[str, int], usual: int) -> dict[str, int]:
    """A size for every label: labels of the same dimension of a tensor have equal sizes; `usual` is
    the default."""
    first = {f.name: f.labels for f in funcs}
    same: dict[str, set[str]] = {n: {n} for f in funcs for n in f.labels}
    for func in funcs:
        for access in accesses(func.value):
            labels = first.setdefault(access.name, access.labels)
            for one, other in zip(labels, access.labels, strict=True):
                joined = same.setdefault(one, {one}) | same.setdefault(other, {other})
                same.update(dict.fromkeys(joined, joined))
    return {
        label: next((sizes[n] for n in sorted(group) if n in sizes), usual)
        for label, group in same.items()
    }


def _stated_sizes(
    labels: Sequence[str],
    name: str,
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, Sequence[str]],
    extents: Mapping[str, int],
) -> Iterator[tuple[str, int]]:
    """The sizes that follow from reading a tensor."""
    if name in tensors:
        shape = tensors[name].shape
        if len(shape) != len(labels):
            raise launch_error(f"{name} has {len(labels)} dimensions, not {len(shape)}")
        yield from zip(labels, shape, strict=True)
        return
    for mine, own in zip(labels, shapes.get(name, ()), strict=False):
        if own in extents:
            yield mine, extents[own]
        elif mine in extents:
            yield own, extents[mine]
