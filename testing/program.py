"""A generated program: a module with one kernel, and everything needed to run it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from tileir.ir import Module
from tileir.types import Scalar

_DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


@attrs.frozen
class ParameterBuffer:
    """The memory of a pointer parameter: `count` elements.

    Inputs are random. With `whole` they are small integers, so that dots are exact; `below` limits
    them to natural numbers less than it, unless it is 0. Outputs start as 0. The array of a
    descriptor has a `shape` and a row stride of `lead` elements.
    """

    element: Scalar
    count: int
    output: bool
    whole: bool = False
    below: int = 0
    shape: tuple[int, ...] = ()
    lead: int = 0


@attrs.frozen(eq=False)
class Program:
    """A kernel `kernel` of `module`, its grid, and one buffer per pointer parameter, by name."""

    module: Module
    kernel: str
    grid: tuple[int, ...]
    buffers: Mapping[str, ParameterBuffer]
    undef: bool = False
    """Whether stored values may be undefined: `tileir.testing.executors` then compares by
    refinement."""
    numbers: Mapping[str, int] = attrs.field(factory=dict[str, int])
    """The kernel's other arguments."""

    def arguments(self, seed: int = 0) -> dict[str, Any]:
        """Return new arrays and numbers by parameter name; the same seed yields the same ones."""
        generator = np.random.default_rng(seed)
        arrays = {name: _array(buffer, generator) for name, buffer in self.buffers.items()}
        return {**arrays, **self.numbers}

    def with_module(self, module: Module) -> Program:
        """Return the same program with another module, such as the output of a pass."""
        return attrs.evolve(self, module=module)


def run(program: Program, seed: int = 0) -> dict[str, Any]:
    """Interpret a program and return its outputs by name. Raises InterpretError."""
    from tileir.interp import interpret

    arguments = program.arguments(seed)
    interpret(program.module, program.kernel, program.grid, arguments, allow_undef=program.undef)
    return {name: arguments[name] for name, buffer in program.buffers.items() if buffer.output}


def difference(outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the first buffer and element in which two runs differ; None if all bits are equal. All
    NaNs are equal."""
    for name, array in expected.items():
        unequal = np.flatnonzero(bits(outputs[name]) != bits(array))
        if len(unequal):
            at = int(unequal[0])
            return f"{name}[{at}] is {outputs[name][at]!r}, not {array[at]!r}"
    return None


def _array(buffer: ParameterBuffer, generator: np.random.Generator) -> Any:
    dtype = np.dtype(_DTYPES[buffer.element.name])
    if buffer.output:
        return np.zeros(buffer.count, dtype)
    if buffer.shape:
        flat = _array(attrs.evolve(buffer, shape=()), generator)
        rows, columns = buffer.shape
        return flat[: rows * buffer.lead].reshape(rows, buffer.lead)[:, :columns]
    if buffer.below:
        return generator.integers(0, buffer.below, buffer.count).astype(dtype)
    if buffer.whole:
        return generator.integers(-4, 5, buffer.count).astype(dtype)
    if buffer.element.is_float:
        return _floats(buffer, dtype, generator)
    low, high = (0, 2) if buffer.element.bits == 1 else (-100, 100)
    return generator.integers(low, high, buffer.count).astype(dtype)


_EXTREMES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0)


def _floats(buffer: ParameterBuffer, dtype: Any, generator: np.random.Generator) -> Any:
    """Normally distributed numbers. Of every second array an eighth are NaNs, infinities, zeros,
    the largest numbers, and the smallest normal and denormal ones, of both signs."""
    array = generator.normal(0, 4, buffer.count).astype(dtype)
    if generator.integers(2):
        return array
    limits = ml_dtypes.finfo(dtype)
    ends = [float(x) for x in (limits.max, limits.smallest_normal, limits.smallest_subnormal)]
    with np.errstate(all="ignore"):
        extremes = np.array([*_EXTREMES, *ends, *(-x for x in ends)]).astype(dtype)
    chosen = generator.random(buffer.count) < 1 / 8
    array[chosen] = generator.choice(extremes, int(chosen.sum()))
    return array


def bits(array: Any) -> Any:
    """The bits of the elements as integers. All NaNs have the same bits."""
    if array.dtype.kind in "biu":
        return array
    words = array.view(f"u{array.dtype.itemsize}").copy()
    with np.errstate(all="ignore"):
        nan = np.isnan(array.astype(np.float64))
    words[nan] = np.iinfo(words.dtype).max
    return words
