"""Problems for the tuner, from a file and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir.backend.legalize.link_inline import legalize
from tileir.backend.measurement.points import Point
from tileir.backend.performance_model.work import work_of
from tileir.backend.tuning import (
    ParameterRole,
    Problem,
    Space,
    TuningParameter,
    content_of,
    mapl19,
)
from tileir.backend.tuning.pass_parameters import compiler_space
from tileir.errors import Diagnostic, ToolError
from tileir.executor import executor
from tileir.ir import Module
from tileir.tools.arrays import dtype_of, spacing_of
from tileir.tools.inputs import Recipe, draw, recipe
from tileir.tools.references import REFERENCES
from tileir.tools.tuning.expressions import numbers
from tileir.tools.tuning.sources import TunableSource, found_in, source
from tileir.types import Pointer, Scalar, Tile, element_of

_INTERPRETED = 3e8
"""The maximum number of operations for which the interpreter is the reference."""

SPACES = ("factory", "compiler", "mapl19")
"""The parts of a space."""


@attrs.frozen
class TuneSettings:
    """The settings of the command line.

    `arguments` are the arguments and the grid, `spaces` the names of spaces, `tried` the choices by
    parameter. The other fields are the target, the seed of the arguments, and the reference for
    results: `auto`, `interpreter` or `first`.
    """

    arguments: Sequence[str] = ()
    spaces: Sequence[str] = ("factory", "compiler")
    tried: Mapping[str, tuple[Any, ...]] = attrs.field(factory=dict)
    target: str = "sm_90a"
    seed: int = 0
    check: str = "auto"


def problem_of(path: str, kernel: str | None, settings: TuneSettings) -> Problem:
    """The problem in a file. Raises `ToolError`, and the errors of reading or building modules."""
    file, _, name = path.partition(":")
    if Path(file).suffix == ".py":
        result = found_in(file, name or kernel)
        if isinstance(result, Problem):
            return attrs.evolve(result, space=_narrow(result.space, settings.tried))
    return _problem(source(path, kernel, list(settings.arguments)), kernel, settings)


def _problem(source: TunableSource, kernel: str | None, settings: TuneSettings) -> Problem:
    factory = _factory_space(source, settings)
    first = {p.name: p.choices[0] for p in factory.parameters if p.role is ParameterRole.MAKE}
    module = source.module(**first)
    grid_text = source.words.get("run.grid", "1")
    plan = recipe(module.evolve(metadata={**module.metadata, "run.grid": 1}), kernel)
    inputs = partial(draw, plan, settings.seed)
    numbers = {k: v for k, v in inputs().items() if isinstance(v, int)}
    grid = Grid(grid_text, tuple(numbers.items()))
    name = plan.kernel.name
    space = factory
    if "compiler" in settings.spaces and not source.listed:
        space = factory * _compiler(source, factory, name, settings)
    return Problem(
        source.make, _narrow(space, settings.tried), grid, inputs,
        content_of(*source.content, *sorted(map(str, source.words.items()))), name, name,
        expected=_expected_arrays(module, plan, grid(first), settings), within=_within(plan),
    )  # fmt: skip


@attrs.frozen
class Grid:
    """A grid that is an expression of arguments and choices."""

    text: str
    numbers: tuple[tuple[str, int], ...]

    def __call__(self, point: Point) -> tuple[int, ...]:
        return numbers(self.text, {**dict(self.numbers), **point})


# Spaces -------------------------------------------------------------------------------------


def _factory_space(source: TunableSource, settings: TuneSettings) -> Space:
    """The space that the file declares, or that of the MAPL paper for its parameters."""
    if source.listed:
        options = {"num_warps", "num_stages", "max_registers"}
        parameters = tuple(
            TuningParameter(n, c, ParameterRole.OPTION if n in options else ParameterRole.MAKE)
            for n, c in source.tunables.items()
        )
        points = [dict(p) for p in source.listed]
        return Space(parameters).where("one of the file's configurations", lambda p: p in points)
    tunables = {**source.tunables, **_stated_choices(source)}
    extra = {k: v for k, v in settings.tried.items() if k not in tunables and not _is_option(k)}
    if "mapl19" in settings.spaces:
        tiles = _tile_parameters(source, tunables)
        non_tiles = [name for name in tunables if name not in tiles]
        return mapl19(tiles, non_tiles)
    declared = {} if "factory" not in settings.spaces else tunables
    return Space(tuple(TuningParameter(n, c) for n, c in {**declared, **extra}.items()))


def _stated_choices(source: TunableSource) -> dict[str, tuple[Any, ...]]:
    """The choices that directives `tune.NAME` state."""
    words = {k.removeprefix("tune."): v for k, v in source.words.items() if k.startswith("tune.")}
    return {k: choices_in(v) for k, v in words.items() if not _is_option(k)}


def _is_option(name: str) -> bool:
    from tileir.backend.compile import Options

    return name in {field.name for field in attrs.fields(Options)}


def _compiler(source: TunableSource, factory: Space, kernel: str, settings: TuneSettings) -> Space:
    """The parameters of the compiler that change the code of the file's first or last choice."""
    ends = [{p.name: p.choices[at] for p in factory.parameters if p.role is ParameterRole.MAKE}
            for at in (0, -1)]  # fmt: skip
    modules = [source.make(**end) for end in (ends if ends[0] != ends[1] else ends[:1])]
    names: dict[str, TuningParameter] = {}
    for module in modules:
        for parameter in compiler_space(module, settings.target, kernel).parameters:
            names[parameter.name] = parameter
    for name, choices in settings.tried.items():
        if _is_option(name):
            names[name] = TuningParameter(name, choices, ParameterRole.OPTION)
    return Space(tuple(names.values()))


def _narrow(space: Space, tried: Mapping[str, tuple[Any, ...]]) -> Space:
    return space.with_choices(**dict(tried))


def _tile_parameters(source: TunableSource, tunables: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """The parameters that are extents of the largest stored tile, slowest dimension first. They are
    identified by assigning a different value to each parameter."""
    values = {name: 32 << i for i, name in enumerate(tunables)}
    module = source.make(**values)
    stored = [
        op.inputs[0].type
        for function in module.functions.values() for op in function.ops
        if op.mnemonic == "store"
    ]  # fmt: skip
    tiles = [kind for kind in stored if isinstance(kind, Tile)]
    shape = max(tiles, key=lambda t: t.size).shape if tiles else ()
    by_value = {value: name for name, value in values.items()}
    names = [by_value[extent] for extent in shape if extent in by_value]
    if not names or len(names) != len(shape):
        message = f"no tunable is an extent of the tile {list(shape)} that is stored"
        raise ToolError(Diagnostic("TIR0915", message))
    return names


def choices_in(text: str) -> tuple[Any, ...]:
    """The choices in a text such as `32, 64` or `true,false,none`."""
    return tuple(_choice(word.strip()) for word in text.split(",") if word.strip())


def _choice(word: str) -> Any:
    plain = {"true": True, "false": False, "none": None}
    if word in plain:
        return plain[word]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


# References ----------------------------------------------------------------------------------


def _expected_arrays(
    module: Module, plan: Recipe, grid: tuple[int, ...], settings: TuneSettings
) -> Any:
    """The function that computes the expected arrays; None to compare with the first candidate."""
    if settings.check == "first":
        return None
    if plan.expected and settings.check != "interpreter":
        return partial(reference_outputs, plan)
    if settings.check == "interpreter" or _is_small(module, plan, grid, settings):
        return partial(interpreted_outputs, module, plan.kernel.name, grid)
    return None


def _is_small(module: Module, plan: Recipe, grid: tuple[int, ...], settings: TuneSettings) -> bool:
    numbers = {k: v for k, v in draw(plan, settings.seed).items() if isinstance(v, int)}
    function = legalize(module, plan.kernel.name).functions[plan.kernel.name]
    work = work_of(function, grid, numbers)
    return (work.operations + work.arithmetic) * prod(grid) < _INTERPRETED


def reference_outputs(plan: Recipe, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The results of the recipe's references, in the element types of the arrays."""
    result: dict[str, Any] = {}
    for name, expectation in plan.expected.items():
        reference = REFERENCES.get(expectation.reference)
        if reference is None:
            message = f"expect.{name}: no reference {expectation.reference!r}"
            raise ToolError(Diagnostic("TIR0903", message))
        words = [_operand(word, inputs) for word in expectation.arguments]
        array = np.asarray(reference(*words))
        result[name] = np.broadcast_to(array, inputs[name].shape).astype(inputs[name].dtype)
    return result


def _operand(word: str, inputs: Mapping[str, Any]) -> Any:
    value = inputs.get(word)
    if value is None:
        return float(word)
    return np.asarray(value, np.float64) if isinstance(value, np.ndarray) else value


def interpreted_outputs(
    module: Module, kernel: str, grid: tuple[int, ...], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """The results of the interpreter."""
    after = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in inputs.items()}
    executor("interpreter").launch(module, kernel, grid, after)
    return {k: v for k, v in after.items() if isinstance(v, np.ndarray)}


def _within(plan: Recipe) -> dict[str, float]:
    """The allowed error of each array."""
    result: dict[str, float] = {}
    for parameter in plan.kernel.parameters:
        element: Any = element_of(parameter.type)
        if isinstance(element, Pointer) and isinstance(element.pointee, Scalar):
            name, stated = str(parameter.name), plan.expected.get(str(parameter.name))
            tolerance = stated.within if stated is not None else None
            result[name] = 32 * spacing_of(element.pointee) if tolerance is None else tolerance
    return result


__all__ = ["SPACES", "Grid", "TuneSettings", "choices_in", "dtype_of", "problem_of"]
