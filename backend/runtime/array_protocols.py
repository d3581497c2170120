"""Arrays on the GPU, of any library: their address, shape and type, and the condition by which a
launcher in machine code recognizes similar arrays.

Torch's tensors are read by `data_ptr`, CuPy's arrays by `data.ptr`, others by
`__cuda_array_interface__` (version 3) or by DLPack. None of the libraries is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import prod
from typing import Any

import attrs

from tileir.backend.launch_arguments import launch_error
from tileir.backend.runtime.dlpack import export
from tileir.backend.runtime.native_launcher import MOST, Arg, ArgKind, Part, PartAccess


@attrs.frozen
class StridedTensor:
    """A strided tensor on the GPU, for a parameter that is a descriptor: the address of its first
    element, extents, and strides in elements."""

    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]


@attrs.frozen(eq=False)
class Array:
    """The address of an array's first element, the name of its element type (`f32`, `i8`), its
    extents and strides in elements (None: contiguous rows), and the number of its GPU, if the
    library states it.

    `like` is the condition by which machine code recognizes similar arrays and reads their address,
    with offset and bounds left open (`like_array`); None if it differs between calls. `stream_of`
    returns the handle of the stream that the library currently uses on `device`.
    """

    address: int
    dtype: str
    extents: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    device: int | None = None
    like: Arg | None = None
    stream_of: Callable[[Any], int] | None = None
    stream: int = 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.extents)

    @property
    def distances(self) -> tuple[int, ...]:
        """The strides in elements."""
        if self.strides is not None:
            return self.strides
        return tuple(prod(self.extents[d + 1 :]) for d in range(len(self.extents)))


def is_array(value: Any) -> bool:
    """Whether `value` offers GPU memory by one of the protocols."""
    return (
        (hasattr(value, "data_ptr") and hasattr(value, "is_cuda"))
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(value, "__dlpack_device__")
    )


def array(value: Any, name: str, devices: int = 1) -> Array:
    """Read `value`, the argument `name`, by its array protocol. `devices` is the number of GPUs.

    Raises LaunchError (TIR0710) for host memory and freed memory.
    """
    if hasattr(value, "data_ptr") and hasattr(value, "is_cuda"):
        return _torch(value, name, devices)
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except Exception as error:  # deleted arrays of JAX, and CPU tensors, raise various exceptions
        raise launch_error(f"argument {name} offers no memory of a GPU: {error}") from error
    if interface is not None:
        return _interface(value, name, interface)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value, name)
    raise launch_error(
        f"argument {name} must be an array of a GPU or an address, not {type(value).__name__}"
    )


def _torch(value: Any, name: str, devices: int) -> Array:
    """A tensor of torch, or of a subclass."""
    if not value.is_cuda:
        raise launch_error(f"argument {name} is a tensor of the CPU: move it to a GPU (.cuda())")
    kind = type(value)
    several = devices > 1
    device = value.get_device() if hasattr(value, "get_device") else None
    like = Arg(
        ArgKind.TENSOR, low=1, type=kind, object=kind.data_ptr, dtype=value.dtype,
        reader=kind.get_device if several else None, device=device or 0,
    )  # fmt: skip
    try:
        address = value.data_ptr()
    except RuntimeError as error:  # fake tensors, and tensors whose storage was freed
        raise launch_error(f"argument {name} has no memory: {error}") from error
    dtype = _TORCH.get(word := str(value.dtype).rpartition(".")[2], word)
    return Array(
        address, dtype, tuple(value.shape), tuple(value.stride()), device, like, _torch_stream()
    )


def _torch_stream() -> Callable[[Any], int] | None:
    torch = sys.modules.get("torch")
    return None if torch is None else getattr(torch._C, "_cuda_getCurrentRawStream", None)


_TORCH = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "bool": "i1",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "f8e8m0",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def _interface(value: Any, name: str, interface: dict[str, Any]) -> Array:
    address, _ = interface["data"]
    typestr, shape = interface["typestr"], tuple(interface["shape"])
    strides, size = interface.get("strides"), int(typestr[2:])
    if strides is not None and any(s % size for s in strides):
        raise launch_error(
            f"argument {name} has strides {strides}, no multiples of its {size} bytes"
        )
    view = Array(
        address or 0,
        _element_name(typestr, size),
        shape,
        None if strides is None else tuple(s // size for s in strides),
        like=_like_interface(value, typestr),
        stream=_queue(interface.get("stream")),
    )
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(value, cupy.ndarray):
        current = cupy.cuda.get_current_stream
        device = value.data.device_id
        reader = _cupy_reader(type(value), value.dtype, device)
        like = Arg(ArgKind.READ, reader=reader, low=1, type=type(value))
        return attrs.evolve(view, like=like, device=device, stream_of=lambda _: current().ptr)
    return view


def _cupy_reader(kind: type, dtype: Any, device: int) -> Callable[[Any], int]:
    def address(value: Any) -> int:
        if type(value) is not kind or value.dtype != dtype:
            return -1
        memory = value.data
        return memory.ptr if memory.device_id == device else -1

    return address


def _like_interface(value: Any, typestr: str) -> Arg | None:
    kind = type(value)

    def address(other: Any) -> int:
        if type(other) is not kind:
            return -1
        interface = other.__cuda_array_interface__
        same = interface["typestr"] == typestr and interface.get("stream") is None
        return (interface["data"][0] or 0) if same else -1

    return Arg(ArgKind.READ, reader=address, low=1, type=kind)


def _queue(stream: int | None) -> int:
    """The handle of a stream of `__cuda_array_interface__`, in which 1 is the legacy default
    stream."""
    return 0 if stream in (None, 1) else stream


def _element_name(typestr: str, size: int) -> str:
    letters = {"f": f"f{8 * size}", "b": "i1", "i": f"i{8 * size}", "u": f"i{8 * size}"}
    return letters.get(typestr[1], f"{8 * size} bits")


def _dlpack(value: Any, name: str) -> Array:
    try:
        capsule = export(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise launch_error(f"argument {name} does not give its memory away: {error}") from error
    if not capsule.on_gpu:
        raise launch_error(
            f"argument {name} is memory of the host (DLPack device {capsule.device_type})"
        )
    return Array(
        capsule.address,
        capsule.dtype,
        capsule.extents,
        capsule.strides,
        capsule.device,
        stream=capsule.stream,
    )


def like_array(
    value: Any, view: Array, offset: int, name: str, divisor: int, flags: int
) -> Arg | None:
    """The condition by which machine code recognizes arrays like `value`, read as `view`, for the
    parameter at `offset`: the address is divisible by `divisor`, subject to `flags`. None if there
    is no such condition. An array at address 0 must have no elements."""
    if view.like is None:
        return None
    like = attrs.evolve(view.like, offset=offset, name=name, divisor=divisor, flags=flags)
    if view.address:
        return attrs.evolve(like, high=MOST)
    itself = Part(PartAccess.ITSELF, None, attrs.evolve(like, low=0, high=0))
    empty = _emptiness(value, view)
    return Arg(ArgKind.WHOLE, low=-1, type=type(value), name=name, parts=(itself, empty))


def _emptiness(value: Any, view: Array) -> Part:
    """The condition that an array like `value` has no elements. Only such an array may be at
    address 0; an array with elements that is there has lost its memory."""
    zero = Arg(ArgKind.INTEGER, low=0, high=0)
    if view.like is None or view.like.kind is not ArgKind.TENSOR:
        return Part(PartAccess.FUNCTION, _size, zero)
    extent = Part(PartAccess.ITEM, view.extents.index(0), zero)
    shape = Arg(ArgKind.WHOLE, low=len(view.extents), type=type(value.shape), parts=(extent,))
    return Part(PartAccess.ATTRIBUTE, "shape", shape)


def _size(value: Any) -> int:
    """The number of elements of an array."""
    return array(value, "").size
