"""Loading and launching compiled kernels, through the CUDA driver.

    kernel = Kernel(compiled)
    kernel[(rows,)](x, y, 4096)

The only module that imports the CUDA bindings, when a kernel is loaded.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any

import attrs

from tileir.backend.compile import Compiled
from tileir.backend.driver.device import Driver, driver
from tileir.backend.driver.filled import Filled
from tileir.backend.driver.gpu import gpu
from tileir.backend.driver.prelude import arranged, as_number
from tileir.backend.driver.tensor_maps import encoded
from tileir.backend.runtime.dispatch import Bound, Dispatcher
from tileir.backend.runtime.reading import Tensor
from tileir.backend.tma.plan import MapValues
from tileir.errors import Diagnostic, LaunchError

_C_TYPES: dict[str, Any] = {
    "i1": ctypes.c_uint8, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double,
}  # fmt: skip
_MOST_MAPS = 1024
"""Tensor maps that a kernel keeps."""

_RANGES = {
    name: (-(1 << bits - 1), (1 << bits) - 1)
    for name, bits in (("i1", 1), ("i8", 8), ("i16", 16), ("i32", 32), ("i64", 64))
}


class Kernel:
    """A compiled kernel, loaded when it is first launched on a device.

    Launches go to the device and the stream of the arrays they are given. Safe to use from several
    threads."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._lock = threading.Lock()
        self._functions: dict[int, Any] = {}
        self._maps: dict[MapValues, Any] = {}
        self._blocks: int | None = None
        self._filled = Filled()
        self._dispatcher: Dispatcher | None = None

    def __getitem__(self, grid: int | Sequence[int]) -> Callable[..., None]:
        """This kernel with a grid of 1 to 3 extents: a function of the kernel's arguments in
        order, and `stream`. Keep it where the same grid is launched again."""
        extents = (grid,) if isinstance(grid, int) else tuple(grid)
        if not 1 <= len(extents) <= 3 or any(n < 1 for n in extents):
            raise _error(f"a grid has 1 to 3 positive extents, not {extents}")
        if self.compiled.host is not None:
            return Launch(self, (*extents, 1, 1)[:3])
        return partial((self._dispatcher or self._dispatching()).call, extents)

    def fill(self, name: str, values: Any) -> None:
        """Let the module's global `name` hold `values`, an array of the host of its type, in every
        launch from now on. Raises LaunchError (TIR0710) where there is none, or it has another
        size."""
        plan = self.compiled.plan
        if name not in plan.globals:
            known = ", ".join(plan.globals) or "none"
            raise _error(f"@{plan.kernel} has no global {name}; there are: {known}")
        self._filled.note(name, values)
        with self._lock:
            for context, function in self._functions.items():
                self._filled.into(driver(), context, function)

    def _dispatching(self) -> Dispatcher:
        plan = self.compiled.plan
        names = tuple(p.name for p in plan.parameters)

        def resolve(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Bound:
            if named:
                arguments += tuple(named[n] for n in names[len(arguments) :] if n in named)
            return Bound(self, plan, arguments, names)

        self._dispatcher = Dispatcher(gpu(), resolve, names)
        return self._dispatcher

    def function(self, cuda: Driver) -> Any:
        """The driver's handle of the kernel in the current context, its globals filled."""
        context = cuda.context()
        found = self._functions.get(context)
        if found is None:
            with self._lock:
                if context not in self._functions:
                    made = self._load(cuda)
                    self._filled.into(cuda, context, made)
                    self._functions[context] = made
            found = self._functions[context]
        return found

    @cached_property
    def plain(self) -> Kernel:
        """The kernel for arguments that tensor maps cannot have."""
        return Kernel(self.compiled.fallback)

    def blocks(self, cuda: Driver) -> int:
        """Blocks that work at once, where each works for many program instances."""
        if self._blocks is None:
            self._blocks = cuda.multiprocessors()
        return self._blocks

    def map(self, cuda: Driver, values: MapValues) -> Any:
        """A tensor map, encoded when it is first asked for."""
        found = self._maps.get(values)
        if found is None:
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            found = self._maps[values] = encoded(cuda, values)
        return found

    def _load(self, cuda: Driver) -> Any:
        plan = self.compiled.plan
        function = cuda.load(self.compiled, plan.kernel)
        if plan.dynamic:
            cuda.allow_shared(function, plan.shared)
        return function


@attrs.frozen
class Launch:
    """A kernel with its grid, ready for arguments."""

    kernel: Kernel
    grid: tuple[int, ...]

    def __call__(self, *arguments: Any, stream: int = 0) -> None:
        """Launch on `stream`, a CUDA stream handle, and return at once.

        Arguments follow the kernel's parameters: anything with `__cuda_array_interface__` (or an
        address) for a pointer, numbers for the rest. Raises `LaunchError`: TIR0710 for arguments
        that do not fit, TIR0711 for what the driver refuses.
        """
        kernel, plan, cuda = self.kernel, self.kernel.compiled.plan, driver()
        packed, grid = pack(plan.arguments, arguments), self.grid
        host = kernel.compiled.host
        if host is not None:
            numbers = [as_number(value) for value in packed]
            found = arranged(host, grid, numbers, kernel.blocks(cuda))
            if found is None:
                return kernel.plain[grid](*arguments, stream=stream)
            grid = found.grid
            packed += [ctypes.c_int32(n) for n in found.extents]
            packed += [kernel.map(cuda, values) for values in found.maps]
        shared = plan.shared if plan.dynamic else 0
        return cuda.launch(kernel.function(cuda), grid, plan.threads, shared, stream, packed)


def pack(types: Sequence[str], arguments: Sequence[Any]) -> list[Any]:
    """Each argument as the C value that the kernel takes. Raises `LaunchError` (TIR0710)."""
    if len(types) != len(arguments):
        raise _error(f"the kernel takes {len(types)} arguments, not {len(arguments)}")
    found: list[Any] = []
    for index, (kind, argument) in enumerate(zip(types, arguments, strict=True)):
        if kind.startswith("tensor_desc"):
            tensor = _tensor(index, kind, argument)
            numbers = (*tensor.extents, *tensor.strides)
            found += [ctypes.c_uint64(tensor.address), *map(ctypes.c_int64, numbers)]
        else:
            found.append(_value(index, kind, argument))
    return found


def _tensor(index: int, kind: str, argument: Any) -> Tensor:
    """An array of the GPU as what a descriptor describes."""
    if isinstance(argument, Tensor):
        return argument
    address = _address(index, kind, argument)
    if callable(getattr(argument, "stride", None)):
        return Tensor(address, tuple(argument.shape), tuple(argument.stride()))
    interface = getattr(argument, "__cuda_array_interface__", None)
    if interface is None:
        raise _error(f"argument {index} must be a GPU array for {kind}, not an address")
    shape, size = tuple(interface["shape"]), int(interface["typestr"][2:])
    strides = interface.get("strides")
    if strides is None:
        return Tensor(address, shape, tuple(prod(shape[d + 1 :]) for d in range(len(shape))))
    return Tensor(address, shape, tuple(s // size for s in strides))


def _value(index: int, kind: str, argument: Any) -> Any:
    if kind.endswith("*"):
        return ctypes.c_uint64(_address(index, kind, argument))
    made = _C_TYPES.get(kind)
    if made is None:
        raise _error(f"argument {index} has type {kind}, which cannot be passed by value")
    integer = kind in _RANGES
    if isinstance(argument, bool) or not isinstance(argument, (int, float)):
        argument = _plain(index, kind, argument)
    if integer and not isinstance(argument, int):
        raise _error(f"argument {index} must be an integer for {kind}, not {argument!r}")
    if integer and not _RANGES[kind][0] <= argument <= _RANGES[kind][1]:
        raise _error(f"argument {index}, {argument}, does not fit in {kind}")
    return made(argument)


def _plain(index: int, kind: str, argument: Any) -> int | float:
    """A bool or a NumPy scalar as a number."""
    if isinstance(argument, bool):
        return int(argument)
    item = getattr(argument, "item", None)
    found = item() if item is not None and getattr(argument, "ndim", 1) == 0 else None
    if not isinstance(found, (int, float)):
        raise _error(f"argument {index} must be a number for {kind}, not {type(argument).__name__}")
    return found


def _address(index: int, kind: str, argument: Any) -> int:
    if isinstance(argument, int) and not isinstance(argument, bool):
        return argument
    pointer = getattr(argument, "data_ptr", None)
    if pointer is not None and getattr(argument, "is_cuda", False):
        return pointer()
    interface = getattr(argument, "__cuda_array_interface__", None)
    if interface is None:
        found = type(argument).__name__
        raise _error(f"argument {index} must be a GPU array or an address for {kind}, not {found}")
    return interface["data"][0]


def _error(message: str) -> LaunchError:
    return LaunchError(Diagnostic("TIR0710", message))
