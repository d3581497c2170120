"""A program with a signature: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from tileir.builder.contraction.program import Program, dtype_of
from tileir.builder.contraction.terms import Tensor
from tileir.errors import Diagnostic, LaunchError
from tileir.ir import Module
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Element, Scalar

_NAMES: dict[str, Element] = {
    "bfloat16": BF16, "float16": F16, "float32": F32, "float64": F64, "bool": I1, "int8": I8,
    "int16": I16, "int32": I32, "int64": I64,
}  # fmt: skip


@attrs.frozen(eq=False)
class TensorFunction:
    """A program as a function: `inputs` are its arguments in order; it returns the outputs of the
    program, one or a tuple."""

    program: Program
    inputs: tuple[Tensor, ...]

    @property
    def module(self) -> Module:
        """The module with all kernels."""
        return self.program.module

    def __call__(self, *arguments: Any, on: str | None = None, **options: Any) -> Any:
        """Run the program as `Program.run` does, and return its outputs. Arguments are arrays, or
        numbers for tensors of one element. Raises LaunchError (TIR0813) for arguments that do not
        fit, and the errors of `Program.run`."""
        if len(arguments) != len(self.inputs):
            raise argument_error(f"{len(self.inputs)} arrays are needed, not {len(arguments)}")
        fitting = _without_aliases(
            [_fitting(t, x) for t, x in zip(self.inputs, arguments, strict=True)]
        )
        arrays = dict(zip(self.inputs, fitting, strict=True))
        result = self.program.run(arrays, on, **options)
        values = tuple(result[t] for t in self.program.outputs)
        return values[0] if len(values) == 1 else values


def element_and_shape(item: Any) -> tuple[Element, tuple[int, ...]]:
    """Return the element type and shape of an array, of a Python number (f32 or i32, shape ()), or
    of a pair (element type, shape), which is checked.

    Raises LaunchError (TIR0813).
    """
    if isinstance(item, tuple):
        return _pair(item)
    if isinstance(item, (bool, int, float)):
        return (I32 if isinstance(item, int) else F32), ()
    name = str(getattr(item, "dtype", type(item).__name__)).removeprefix("torch.")
    if name not in _NAMES or not hasattr(item, "shape"):
        raise argument_error(f"an array of numbers is needed, not {name}")
    return _NAMES[name], tuple(item.shape)


def _pair(item: tuple[Any, ...]) -> tuple[Element, tuple[int, ...]]:
    element, shape = item if len(item) == 2 else (None, None)
    extents = shape if isinstance(shape, (tuple, list)) else (-1,)
    if not isinstance(element, Scalar) or any(not isinstance(n, int) or n < 0 for n in extents):
        raise argument_error(
            f"an element type and a shape are needed, as (F32, (3, 4)), not {item}"
        )
    return element, tuple(extents)


def argument_error(message: str) -> LaunchError:
    """The error (TIR0813) for arguments that do not fit."""
    return LaunchError(Diagnostic("TIR0813", message))


def _fitting(tensor: Tensor, argument: Any) -> Any:
    """`argument` in the form that kernels take."""
    if not tensor.shape and isinstance(argument, (bool, int, float)):
        return argument if tensor.by_value else _full_array(tensor, argument)
    array: Any = argument
    element, shape = element_and_shape(array)
    if element is not tensor.element or shape != tensor.shape:
        required = f"{tensor.element} of shape {_text(tensor.shape)}"
        raise argument_error(f"{tensor.name} is {required}, not {element} of shape {_text(shape)}")
    if tensor.by_value:
        return array.item()
    if isinstance(array, (np.ndarray, np.generic)):
        return np.ascontiguousarray(array).reshape(shape)
    return array


def _without_aliases(arrays: Sequence[Any]) -> list[Any]:
    """`arrays`, with copies in place of arrays that share memory: kernels are promised that none
    do."""
    result: list[Any] = []
    for array in arrays:
        shared = isinstance(array, np.ndarray) and any(
            isinstance(x, np.ndarray) and np.may_share_memory(x, array) for x in result
        )
        result.append(array.copy() if shared else array)
    return result


def _full_array(tensor: Tensor, number: float) -> Any:
    """An array of the only element of `tensor`. Raises LaunchError."""
    try:
        return np.full((), number, dtype_of(tensor.element))
    except OverflowError:
        raise argument_error(f"{tensor.name} is {tensor.element}, not {number}") from None


def _text(shape: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
