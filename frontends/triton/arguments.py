"""Arguments of a launch: their types, and what to specialize for."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tileir.frontends.triton.annotations import convert_number
from tileir.frontends.triton.dtypes import (
    ARRAYS,
    DType,
    PointerType,
    int1,
    int32,
    int64,
    of_number,
)
from tileir.frontends.triton.errors import launch_error
from tileir.frontends.triton.language.control import constexpr, unwrap
from tileir.frontends.triton.parameters import (
    Argument,
    DescriptorParameter,
    Known,
    RuntimeParameter,
    TupleParameter,
)
from tileir.frontends.triton.reinterpreting import TensorWrapper
from tileir.frontends.triton.tensor import Kind
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor
from tileir.machine.tensor import dtype_of


def is_array(value: Any) -> bool:
    """Whether `value` is memory that a kernel gets a pointer to."""
    return (
        isinstance(value, np.ndarray)
        or hasattr(value, "data_ptr")
        or _offers(value, "__cuda_array_interface__")
    )


def _offers(value: Any, name: str) -> bool:
    """Whether `value` has an attribute `name`; one that raises what it likes is there."""
    try:
        return hasattr(value, name)
    except Exception:
        return True


def annotated_argument(name: str, value: Any, kind: Kind, plain: bool) -> Argument:
    """The specialization of a kernel for `value`, for a parameter annotated `kind`. No number is a
    constant, not even 1. Raises LaunchError."""
    if value is None:
        return Known(None)
    if isinstance(kind, PointerType) != is_array(value):
        what = "a pointer" if isinstance(kind, PointerType) else f"a number, {kind}"
        raise launch_error(f"argument {name} is a {type(value).__name__}, and annotated as {what}")
    if isinstance(kind, PointerType):
        divisible = 16 if address(value) % 16 == 0 else 1
    else:
        divisible = _divisor(value) if kind.is_int() and not kind.is_bool() else 1
    return RuntimeParameter(kind, 1 if plain else divisible)


def annotated_value(name: str, value: Any, kind: Kind) -> Any:
    """`value` converted for a parameter annotated `kind`: a number of that type, or an array whose
    elements are reinterpreted. Raises LaunchError."""
    if isinstance(value, tuple) or value is None:
        return value
    if isinstance(kind, DType):
        return value if is_array(value) else convert_number(name, value, kind)
    if not is_array(value) or _element(name, value).element is kind.element_ty.element:
        return value
    return TensorWrapper(value, kind.element_ty)


def argument(name: str, value: Any, plain: bool = False) -> Argument:
    """The specialization of a kernel for `value`.

    It is a constant for 1 and for values that are neither arrays nor numbers, and several
    parameters for tuples and descriptors. With `plain`, nothing is assumed about numbers and
    addresses. Raises LaunchError.
    """
    if isinstance(value, constexpr):
        return Known(unwrap(value))
    if isinstance(value, TensorDescriptor):
        return _specialize_descriptor(name, value)
    if isinstance(value, tuple) and any(map(_runs, value)):
        items = cast(tuple[Any, ...], value)
        result = (argument(f"{name}[{i}]", x, plain) for i, x in enumerate(items))
        return TupleParameter(tuple(result), type(items))
    if _is_constant(value, plain):
        return Known(unwrap(value))
    result = parameter(name, value)
    return RuntimeParameter(result.type) if plain else result


def drop_alignment(argument: Argument) -> Argument:
    """The same, of whose addresses and integers no multiple is known."""
    return RuntimeParameter(argument.type) if isinstance(argument, RuntimeParameter) else argument


def _runs(value: Any) -> bool:
    """Whether a tuple with this item is known only when the kernel runs."""
    if isinstance(value, tuple):
        return any(map(_runs, cast(tuple[Any, ...], value)))
    return isinstance(value, (TensorDescriptor, float)) or not _is_constant(value, plain=True)


def _specialize_descriptor(name: str, value: TensorDescriptor) -> DescriptorParameter:
    base = parameter(name, value.base)
    if not isinstance(base.type, PointerType):
        raise launch_error(f"argument {name} describes a {type(value.base).__name__}, not an array")
    extents = tuple(RuntimeParameter(int32, _divisor(n)) for n in value.shape)
    strides = tuple(RuntimeParameter(int64, _divisor(n)) for n in value.strides[:-1])
    block = tuple(int(n) for n in value.block_shape)
    return DescriptorParameter(base, extents, strides, block, value.padding)


def _is_constant(value: Any, plain: bool) -> bool:
    """Whether a value without an annotation is a compile-time constant: 1, a constexpr, or neither
    an array nor a number."""
    if isinstance(value, constexpr):
        return True
    if is_array(value) or isinstance(value, float):
        return False
    if isinstance(value, int) and not isinstance(value, bool):
        return value == 1 and not plain
    return not isinstance(value, bool) and not hasattr(value, "dtype")


def parameter(name: str, value: Any) -> RuntimeParameter:
    """The parameter that an array or number is passed as. Raises LaunchError."""
    if is_array(value):
        return RuntimeParameter(
            PointerType(_element(name, value)), 16 if address(value) % 16 == 0 else 1
        )
    if isinstance(value, (bool, np.bool_)):
        return RuntimeParameter(int1)
    if isinstance(value, (int, float, np.integer, np.floating)):
        number = value.item() if isinstance(value, np.generic) else value
        return RuntimeParameter(_scalar(name, number), _divisor(number))
    raise launch_error(
        f"argument {name} is a {type(value).__name__}; arrays and numbers are passed"
    )


def _scalar(name: str, number: Any) -> DType:
    try:
        return of_number(number)
    except ValueError as error:
        raise launch_error(f"argument {name}: {error}") from None


def _divisor(number: Any) -> int:
    return 16 if isinstance(number, (int, np.integer)) and number and number % 16 == 0 else 1


def _element(name: str, value: Any) -> DType:
    if isinstance(value.dtype, DType):
        return value.dtype
    word = str(value.dtype).rpartition(".")[2]
    if word not in ARRAYS:
        message = f"argument {name} is an array of {value.dtype}, which kernels do not support"
        raise launch_error(message)
    return ARRAYS[word]


def address(value: Any) -> int:
    """The address of the array. Raises LaunchError for one without memory, as a sparse tensor."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    if hasattr(value, "data_ptr"):
        try:
            return int(value.data_ptr())
        except (NotImplementedError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            message = f"a kernel takes dense tensors, which have an address: {reason}"
            raise launch_error(message) from None
    return int(value.__cuda_array_interface__["data"][0])


def host_array(value: Any) -> Any:
    """An array of the host, of any library and element type, as numpy's, sharing its memory;
    anything else as it is. Raises LaunchError for an array without memory, as on `meta`."""
    if isinstance(value, TensorWrapper):
        return _seen_as(host_array(value.base), value.dtype)
    if isinstance(value, np.ndarray) or not is_array(value):
        return value
    if on_gpu(value):
        return value
    kind = dtype_of(_element("", value).element)
    size, shape = kind.itemsize, tuple(value.shape)
    strides = tuple(n * size for n in value.stride())
    if not address(value) and 0 not in shape:
        device = getattr(value, "device", "unknown")
        raise launch_error(
            f"a tensor on the device {device} has no memory that a kernel can access"
        )
    if hasattr(value, "untyped_storage") and not value.is_contiguous():
        # kernels get its address and strides, and may access memory past its end
        shape = (value.untyped_storage().nbytes() // size - value.storage_offset(),)
        strides = (size,)
    interface = {
        "version": 3, "data": (address(value), False), "typestr": f"|V{size}",
        "shape": shape, "strides": strides,
    }  # fmt: skip
    return np.asarray(SimpleNamespace(__array_interface__=interface, owner=value)).view(kind)


def _seen_as(array: Any, kind: DType) -> Any:
    """The memory of an array as elements of another type. Raises LaunchError."""
    try:
        if type(array).__module__.partition(".")[0] == "torch":
            name = next(n for n, k in ARRAYS.items() if k == kind)
            return array.detach().view(getattr(importlib.import_module("torch"), name))
        return array.view(dtype_of(kind.element))
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise launch_error(f"{array.dtype} elements cannot be seen as {kind}: {error}") from None


def on_gpu(value: Any) -> bool:
    """Whether `value` is an array of a GPU, or made of such."""
    if isinstance(value, tuple):
        return any(map(on_gpu, cast(tuple[Any, ...], value)))
    if isinstance(value, (TensorDescriptor, TensorWrapper)):
        return on_gpu(value.base)
    is_cuda = getattr(value, "is_cuda", None)
    if is_cuda is not None:
        return bool(is_cuda)
    return _offers(value, "__cuda_array_interface__") and not _offers(value, "__array_interface__")
