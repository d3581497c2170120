"""The arguments of a kernel, as its module's metadata describes them.

    run.kernel  = "softmax"               which kernel; the only one when left out
    run.grid    = [583]                   program instances along each axis; [1] when left out
    run.x       = "f32[583, 931] normal"  a buffer of that type and shape, and what fills it
    run.y       = "f32[583, 931]"         a buffer the kernel fills; it starts as NaN or -1
    run.n       = "931"                   a number
    expect.y    = "softmax(x)"            what `y` holds afterwards (see `references`)
    within.y    = 1e-6                    the largest error allowed, relative above 1

Each kernel parameter has one `run.` entry of its name. The fills are `normal`, `uniform` (in [0,
1)), `zeros`, `ones`, `arange`, `integers(LOW, HIGH)` (HIGH excluded). One random generator draws
all arguments in the order of the parameters, so a seed yields the same arguments on every machine.
The metadata is never evaluated as code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Function, Module, Parameter
from tileir.tools.arrays import dtype_of
from tileir.types import Pointer, Scalar, scalar

_BUFFER = re.compile(r"(\w+)\s*\[([\d,\s]*)\]\s*(?:(\w+)(?:\(\s*(-?\d+)\s*,\s*(-?\d+)\s*\))?)?")
_CALL = re.compile(r"(\w+)\s*\(([^()]*)\)")

_FILLS = "normal, uniform, zeros, ones, arange, integers(LOW, HIGH)"


@attrs.frozen
class Expectation:
    """A named reference applied to arguments (parameter names or numbers), and the allowed error:
    absolute up to magnitude 1, relative above; None for the default of the element type."""

    reference: str
    arguments: tuple[str, ...]
    within: float | None


@attrs.frozen
class Recipe:
    """The description of a launch: kernel, grid, inputs and expected results."""

    kernel: Function
    grid: tuple[int, ...]
    arguments: Mapping[str, str]
    expected: Mapping[str, Expectation]


def recipe(module: Module, name: str | None = None) -> Recipe:
    """Read the description of a launch from the metadata of a module.

    `name` is the kernel; None is the one that the metadata names. Raises ToolError: TIR0707 for a
    missing kernel, TIR0902 and TIR0903 for missing or invalid metadata.
    """
    required = name or _text(module, "run.kernel")
    try:
        kernel = module.kernel(required)
    except KeyError as error:
        raise _bad(str(error.args[0]), "TIR0707") from None
    arguments: dict[str, str] = {}
    for parameter in kernel.parameters:
        text = _text(module, f"run.{parameter.name}")
        if text is None:
            what = f"no metadata run.{parameter.name}: {parameter.type} %{parameter.name} of"
            raise _bad(f"{what} @{kernel.name} has no value to run on", "TIR0902")
        arguments[str(parameter.name)] = text
    return Recipe(kernel, _grid(module), arguments, _expectations(module, arguments))


def unused_entries(module: Module) -> list[str]:
    """The entries `run.NAME` and `within.NAME` of the metadata that no launch of a kernel of the
    module reads."""
    kernels = [f for f in module.functions.values() if f.kernel]
    names = {str(p.name) for kernel in kernels for p in kernel.parameters}
    read = {"run.kernel", "run.grid", *(f"run.{name}" for name in names)}
    read |= {f"within.{name}" for name in names if f"expect.{name}" in module.metadata}
    return [k for k in module.metadata if k.startswith(("run.", "within.")) and k not in read]


def draw(recipe: Recipe, seed: int) -> dict[str, Any]:
    """The arguments by name: arrays for pointers, numbers for scalars. Raises ToolError."""
    generator = np.random.default_rng(seed)
    return {
        str(p.name): _argument(p, recipe.arguments[str(p.name)], generator)
        for p in recipe.kernel.parameters
    }


def _argument(parameter: Parameter, text: str, generator: np.random.Generator) -> Any:
    kind = parameter.type
    if isinstance(kind, Scalar):
        return _number(kind, text, f"run.{parameter.name}")
    if not isinstance(kind, Pointer) or not isinstance(kind.pointee, Scalar):
        raise _bad(f"{kind} %{parameter.name} cannot be described in metadata")
    result = _BUFFER.fullmatch(text.strip())
    if result is None or result[1] != kind.pointee.name:
        raise _bad(f'run.{parameter.name} must be "{kind.pointee}[SHAPE] FILL", not {text!r}')
    shape = tuple(int(n) for n in result[2].replace(",", " ").split())
    try:
        return _fill_array(scalar(result[1]), shape, result[3], (result[4], result[5]), generator)
    except LookupError:
        raise _bad(f"run.{parameter.name}: {result[3]!r} is none of {_FILLS}") from None
    except (MemoryError, ValueError) as error:
        raise _bad(f"run.{parameter.name} cannot be drawn: {error}") from None


def _number(kind: Scalar, text: str, entry: str) -> int | float:
    try:
        return int(text) if kind.is_integer else float(text)
    except ValueError:
        raise _bad(f"{entry} must be a number of type {kind}, not {text!r}") from None


def _fill_array(
    element: Scalar,
    shape: tuple[int, ...],
    fill: str | None,
    bounds: tuple[str | None, str | None],
    generator: np.random.Generator,
) -> Any:
    """An array of `element`. Without a fill it contains NaN or -1, so that elements that are not
    written can be recognized. Raises LookupError for an unknown fill."""
    dtype = dtype_of(element)
    match fill:
        case None:
            return np.full(shape, float("nan") if element.is_float else -1).astype(dtype)
        case "normal":
            return generator.standard_normal(shape, dtype=np.float32).astype(dtype)
        case "uniform":
            return generator.random(shape, dtype=np.float32).astype(dtype)
        case "zeros" | "ones":
            return np.full(shape, int(fill == "ones")).astype(dtype)
        case "arange":
            return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        case "integers" if bounds[0] is not None and bounds[1] is not None:
            return generator.integers(int(bounds[0]), int(bounds[1]), shape).astype(dtype)
        case _:
            raise LookupError(fill)


def _expectations(module: Module, arguments: Mapping[str, str]) -> dict[str, Expectation]:
    expectations: dict[str, Expectation] = {}
    for key in module.metadata:
        what, _, name = key.partition(".")
        if what != "expect":
            continue
        if name not in arguments:
            raise _bad(f"{key}: the kernel has no parameter %{name}")
        text = _text(module, key) or ""
        call = _CALL.fullmatch(text.strip())
        if call is None:
            raise _bad(f'{key} must be "reference(argument, ...)", not {text!r}')
        words = tuple(word.strip() for word in call[2].split(",") if word.strip())
        expectations[name] = Expectation(call[1], words, _within(module, name))
    return expectations


def _within(module: Module, name: str) -> float | None:
    value = module.metadata.get(f"within.{name}")
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    raise _bad(f"within.{name} must be a number, not {value!r}")


def _grid(module: Module) -> tuple[int, ...]:
    value = module.metadata.get("run.grid", (1,))
    sizes = value if isinstance(value, tuple) else (value,)
    extents = tuple(n for n in sizes if type(n) is int and n > 0)
    if len(extents) != len(sizes) or not 1 <= len(extents) <= 3:
        raise _bad(f"run.grid must be one to three positive integers, not {value!r}")
    return extents


def _text(module: Module, key: str) -> str | None:
    value = module.metadata.get(key)
    return None if value is None else str(value)


def _bad(message: str, code: str = "TIR0903") -> ToolError:
    return ToolError(Diagnostic(code, message))
