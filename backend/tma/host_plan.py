"""The host plan of a kernel: the numbers and tensor maps that the launcher computes from the
arguments. It is derived from the kernel's entry block.

    plan = HostPlan.of(kernel)
    values = plan.map_values((x, y, z, m, n, k))    None: launch the kernel without tensor maps
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import gcd
from typing import Any

import attrs

from tileir.analysis.clusters import persistent_instances
from tileir.analysis.uses import definitions
from tileir.backend.tma.host_expressions import FORMULAS, HostOp, Operand, host_values
from tileir.ir import Function
from tileir.ops.hints import Assume
from tileir.ops.hopper import TensorMap
from tileir.ops.shape import GetElementPtr
from tileir.types import Scalar
from tileir.values import Constant, Value

ALIGNMENT = 16
"""Bytes that the address of a tensor, and the distances within it, are multiples of."""

NON_TMA_ALIGNMENTS = "non_tma_alignments"
"""Kernel attribute: for each parameter, 0 if tensors at it are accessed by tensor maps, else the
alignment in bytes of the rows, which threads then access."""


@attrs.frozen
class MapRecipe:
    """The recipe of a tensor map: the name of the element type, the block that is copied, the
    swizzle of its rows, the value of elements out of bounds (`zero`, `nan`), and the base, extents
    and strides (in elements), outermost dimension first. `parameter` is the index of the pointer
    from which the base is computed, -1 if it is not computed from a single one."""

    element: str
    size: int
    block: tuple[int, ...]
    swizzle: int
    padding: str
    base: Operand
    extents: tuple[Operand, ...]
    strides: tuple[Operand, ...]
    parameter: int


@attrs.frozen
class MapValues:
    """A tensor map for certain arguments: the address, the extents, and the strides in bytes of all
    dimensions but the innermost."""

    recipe: MapRecipe
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]


@attrs.frozen(slots=False)
class HostPlan:
    """The work of the host before a launch.

    `steps` compute numbers from the arguments. If one of `guards` is 0, or a map cannot be encoded,
    the kernel must not be launched. `persistent`, if not 0, is the number of program instances that
    run at once in a persistent kernel: each block, or each cluster, computes many instances, and
    the extents of the grid are the last arguments.
    """

    arguments: int
    steps: tuple[HostOp, ...]
    guards: tuple[Operand, ...]
    maps: tuple[MapRecipe, ...]
    persistent: int = 0

    @staticmethod
    def of(kernel: Function) -> HostPlan | None:
        """The plan of a kernel; None where the host has nothing to compute."""
        maps = [op for op in kernel.entry.ops if isinstance(op, TensorMap)]
        if not maps and NON_TMA_ALIGNMENTS not in kernel.attributes:
            return None
        return _Reading(kernel).plan(maps)

    def to_text(self) -> str:
        """The plan as a line of JSON, for a module's metadata."""
        return json.dumps(attrs.asdict(self), separators=(",", ":"))

    @staticmethod
    def from_text(text: str) -> HostPlan:
        """Read the text of `to_text`. Raises KeyError, TypeError and ValueError for any other
        text."""
        fields = json.loads(text)
        steps = tuple(HostOp(**_tuples(s)) for s in fields["steps"])
        maps = tuple(MapRecipe(**_tuples(m)) for m in fields["maps"])
        for step in steps:
            if step.mnemonic not in FORMULAS:
                raise ValueError(f"no op {step.mnemonic}")
        all_fields: dict[str, Any] = {**_tuples(fields), "steps": steps, "maps": maps}
        plan = HostPlan(**all_fields)
        plan.check_names()
        return plan

    def check_names(self) -> None:
        """Raise ValueError if an operand is neither a number nor a name that the plan defines."""
        count = len(self.steps)
        names = {*(f"a{i}" for i in range(self.arguments)), *(f"v{i}" for i in range(count))}
        operands = [x for s in self.steps for x in s.operands] + [*self.guards]
        operands += [x for m in self.maps for x in (m.base, *m.extents, *m.strides)]
        for operand in operands:
            if operand not in names if isinstance(operand, str) else type(operand) is not int:
                raise ValueError(f"no operand {operand!r}")
        for step in self.steps:
            numbers = all(type(n) is int for n in (step.bits, step.source, step.size))
            if not numbers or not re.fullmatch(r"[a-z ]*", step.word):
                raise ValueError(f"no step {step}")

    def map_values(self, arguments: Sequence[int]) -> tuple[MapValues, ...] | None:
        """The values of the maps for `arguments`, which are addresses and integers; the values of
        other arguments do not matter. None if a guard is 0 or a map cannot be encoded (CUDA driver
        API, "Tensor Map")."""
        try:
            map_numbers = self._function(*arguments)
        except ZeroDivisionError:
            return None
        if map_numbers is None:
            return None
        values = tuple(
            _values(r, *numbers) for r, numbers in zip(self.maps, map_numbers, strict=True)
        )
        return None if None in values else values  # type: ignore[return-value]

    def non_tma_alignments(self, arguments: Sequence[int]) -> tuple[int, ...] | None:
        """The alignments with which the kernel has to be compiled for `arguments`, by argument.

        For a tensor that no tensor map can describe, this is the largest power of two, up to
        `ALIGNMENT`, that divides the byte offsets of its rows; 0 for all other arguments. None if a
        kernel with these alignments would not help.
        """
        try:
            map_numbers = self._function(*arguments)
        except ZeroDivisionError:
            return None
        if map_numbers is None:
            return None
        alignments = [0] * len(arguments)
        for recipe, numbers in zip(self.maps, map_numbers, strict=True):
            if _values(recipe, *numbers) is None:
                if recipe.parameter < 0 or min(numbers[1]) < 1:
                    return None
                unit = _unit(recipe, *numbers)
                alignments[recipe.parameter] = min(alignments[recipe.parameter] or unit, unit)
        return tuple(alignments) if any(alignments) else None

    def tensors(self, arguments: Sequence[int]) -> list[tuple[MapRecipe, tuple[int, ...]]]:
        """The recipes with the extents of their tensors, even if no map can be encoded for them;
        none if a guard is 0."""
        try:
            map_numbers: Sequence[Any] = self._function(*arguments) or ()
        except ZeroDivisionError:
            return []
        return [
            (recipe, extents)
            for recipe, (_, extents, _) in zip(self.maps, map_numbers, strict=False)
        ]

    @cached_property
    def _function(self) -> Callable[..., Any]:
        """A Python function of the arguments: base, extents and strides of each map, or None."""
        names = ", ".join(f"a{i}" for i in range(self.arguments))
        lines = [f"    v{i} = {step.text}" for i, step in enumerate(self.steps)]
        tests = " and ".join(map(str, self.guards)) or "1"
        maps = [f"({m.base}, {_tuple(m.extents)}, {_tuple(m.strides)})," for m in self.maps]
        body = "\n".join([*lines, f"    if not ({tests}): return None"])
        text = f"def plan({names}):\n{body}\n    return ({' '.join(maps)})\n"
        space: dict[str, Any] = {}
        # The text consists of generated expressions only.
        exec(compile(text, "<host plan>", "exec"), {}, space)
        return space["plan"]


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def _tuple(operands: Sequence[Operand]) -> str:
    return f"({', '.join(map(str, operands))},)"


def _values(
    recipe: MapRecipe, base: int, extents: tuple[int, ...], strides: tuple[int, ...]
) -> MapValues | None:
    """The map for these numbers, which are in elements; None if the hardware does not support
    it."""
    moved = tuple(s * recipe.size for s in strides[:-1])
    fits = (
        base % ALIGNMENT == 0
        and strides[-1] == 1
        and all(0 < n <= 1 << 32 for n in extents)
        and all(0 < s < 1 << 40 and s % ALIGNMENT == 0 for s in moved)
    )
    return MapValues(recipe, base, extents, moved) if fits else None


def _unit(recipe: MapRecipe, base: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The largest power of two, up to `ALIGNMENT`, that divides the byte offsets of all rows and
    their ends."""
    steps = [*strides[:-1], extents[-1]] if strides[-1] == 1 else [1]
    return gcd(ALIGNMENT, base, *(n * recipe.size for n in steps))


class _Reading:
    """The steps of a kernel's entry block."""

    def __init__(self, kernel: Function) -> None:
        self.kernel = kernel
        self.steps: list[HostOp] = []
        self.names: dict[Value, Operand] = {
            p.value: f"a{i}" for i, p in enumerate(kernel.parameters)
        }

    def plan(self, maps: Sequence[TensorMap]) -> HostPlan:
        computable, guards = host_values(self.kernel), list[Operand]()
        for op in self.kernel.entry.ops:
            if isinstance(op, Assume) and op.condition in computable:
                guards.append(self.name(op.condition))
            elif op.results and all(v in computable for v in op.results):
                operands = tuple(map(self.name, op.inputs))
                for index, value in enumerate(op.results):
                    self.names[value] = f"v{len(self.steps)}"
                    self.steps.append(HostOp.of(op, operands, index))
        recipes = tuple(map(self._recipe, maps))
        persistent = persistent_instances(self.kernel)
        count = len(self.kernel.parameters)
        return HostPlan(count, tuple(self.steps), tuple(guards), recipes, persistent)

    def name(self, operand: Any) -> Operand:
        """The name by which a step refers to `operand`."""
        if isinstance(operand, Constant):
            assert isinstance(operand.type, Scalar)
            return int(operand.value)
        return self.names[operand]

    def _recipe(self, op: TensorMap) -> MapRecipe:
        block: Any = op.to.block  # type: ignore[union-attr]
        numbers = [self.name(n) for n in op.dimensions]
        return MapRecipe(
            str(block.element), block.element.bytes, block.shape, op.swizzle, op.padding.value,
            self.name(op.base), tuple(numbers[::2]), tuple(numbers[1::2]),
            parameter_of(self.kernel, op.base),
        )  # fmt: skip


def parameter_of(kernel: Function, base: object) -> int:
    """The index of the parameter from which a pointer is computed; -1 if there is none."""
    definition_of = definitions(kernel)
    while isinstance(base, Value) and isinstance(step := definition_of.get(base), GetElementPtr):
        base = step.pointer
    values = [p.value for p in kernel.parameters]
    return values.index(base) if isinstance(base, Value) and base in values else -1


def row_alignment(kernel: Function, base: object) -> int:
    """The alignment in bytes, by the kernel's attribute, of the rows at `base` that threads access;
    0 if tensor maps access them."""
    units, index = kernel.attributes.get(NON_TMA_ALIGNMENTS), parameter_of(kernel, base)
    if not isinstance(units, tuple) or not 0 <= index < len(units):
        return 0
    return int(units[index])
