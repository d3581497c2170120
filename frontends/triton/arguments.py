"""Arguments of a launch: their types, and what to specialize for."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.frontends.triton.dtypes import ARRAYS, DType, PointerType, int1, of_number
from tileir.frontends.triton.errors import refused
from tileir.frontends.triton.kernel import Parameter


def is_array(value: Any) -> bool:
    """Whether `value` is memory that a kernel gets a pointer to."""
    return (
        isinstance(value, np.ndarray)
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(value, "data_ptr")
    )


def parameter(name: str, value: Any) -> Parameter:
    """The parameter that `value` is passed as. Raises LaunchError."""
    if is_array(value):
        return Parameter(PointerType(_element(name, value)), 16 if address(value) % 16 == 0 else 1)
    if isinstance(value, (bool, np.bool_)):
        return Parameter(int1)
    if isinstance(value, (int, float, np.integer, np.floating)):
        number = value.item() if isinstance(value, np.generic) else value
        return Parameter(_scalar(name, number), _divisor(number))
    raise refused(f"argument {name} is a {type(value).__name__}; arrays and numbers are passed")


def _scalar(name: str, number: Any) -> DType:
    try:
        return of_number(number)
    except ValueError as error:
        raise refused(f"argument {name}: {error}") from None


def _divisor(number: Any) -> int:
    return 16 if isinstance(number, int) and number and number % 16 == 0 else 1


def _element(name: str, value: Any) -> DType:
    word = str(value.dtype).rpartition(".")[2]
    if word not in ARRAYS:
        raise refused(f"argument {name} holds {value.dtype}, which kernels have no type for")
    return ARRAYS[word]


def address(value: Any) -> int:
    """Where the array begins."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    return int(value.__cuda_array_interface__["data"][0])


def host_array(value: Any) -> Any:
    """An array of the host as numpy's, sharing its memory; anything else as it is. Raises
    LaunchError for one that is not contiguous where its strides would be lost."""
    if isinstance(value, np.ndarray) or not is_array(value):
        return value
    if hasattr(value, "__cuda_array_interface__") and getattr(value, "is_cuda", True):
        return value
    return value.detach().numpy()
