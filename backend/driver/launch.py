"""Loading and launching compiled kernels, through the CUDA driver.

    kernel = Kernel(compiled)
    kernel[(rows,)](x, y, 4096)

The CUDA bindings are imported when the first kernel is loaded.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from tileir.backend.compile import CompiledKernel
from tileir.backend.driver.c_values import c_values
from tileir.backend.driver.device import CudaDriver, driver
from tileir.backend.driver.global_initializers import GlobalInitializers
from tileir.backend.driver.gpu import gpu
from tileir.backend.driver.launch_plan import as_number, plan_launch
from tileir.backend.driver.tensor_maps import encode_tensor_map
from tileir.backend.launch_arguments import extents_of, launch_error
from tileir.backend.metadata import KernelParameter
from tileir.backend.runtime.argument_packing import SpecializationPolicy, pack_argument
from tileir.backend.runtime.array_protocols import StridedTensor
from tileir.backend.runtime.dispatch import BoundCall, Dispatcher, RepeatableLaunch
from tileir.backend.runtime.launch_program import (
    Condition,
    LaunchProgram,
    Planned,
    Refused,
    SameGridAndWords,
)
from tileir.backend.tma.host_plan import MapValues

__all__ = ["LoadedKernel", "StridedTensor", "pack"]

_MOST_MAPS = 1024
"""Tensor maps that a kernel keeps, and sizes of launches."""

_PORTABLE = 8
"""Blocks of a cluster that every machine with clusters has (CUDA C++ Programming Guide)."""


class LoadedKernel:
    """A compiled kernel, loaded on its first launch on a device.

    Launches use the device and the stream of their arrays. Several threads may use one object.
    """

    def __init__(self, compiled: CompiledKernel) -> None:
        self.compiled = compiled
        self._lock = threading.Lock()
        self._functions: dict[int, Any] = {}
        self._maps: dict[MapValues, Any] = {}
        self._non_tma_variants: dict[tuple[int, ...] | None, LoadedKernel] = {}
        self._split_k_variants: dict[tuple[Any, ...], LoadedKernel | None] = {}
        self._by_ranks: dict[int, LoadedKernel] = {}
        self._blocks: int | None = None
        self._filled = GlobalInitializers()
        self._dispatcher: Dispatcher | None = None

    def __getitem__(self, grid: int | Sequence[int]) -> Callable[..., None]:
        """This kernel with a grid of 1 to 3 extents: a function of the kernel's arguments in order,
        and `stream`. It does nothing if an extent is 0. It may be kept to launch the same grid
        repeatedly. Raises LaunchError (TIR0710)."""
        extents: Any = grid if type(grid) is tuple else (grid,)
        if {*map(type, extents)} != {int} or len(extents) > 3 or min(extents) < 1:
            extents = extents_of(grid)
            if 0 in extents:
                return _nothing
        return partial((self._dispatcher or self._dispatching()).call, extents)

    def fill(self, name: str, values: Any) -> None:
        """Set the module's global `name` to `values`, a host array of its type, for every later
        launch. Raises LaunchError (TIR0710) if there is no such global, or if its size differs."""
        plan = self.compiled.plan
        if name not in plan.globals:
            names = ", ".join(plan.globals) or "none"
            raise launch_error(f"@{plan.kernel} has no global {name}; there are: {names}")
        self._filled.note(name, values)
        with self._lock:
            for context, function in self._functions.items():
                self._filled.into(driver(), context, function)

    def _dispatching(self) -> Dispatcher:
        plan = self.compiled.plan
        names = tuple(p.name for p in plan.parameters)

        def resolve(_: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> BoundCall:
            if keywords:
                arguments += tuple(keywords[n] for n in names[len(arguments) :] if n in keywords)
            return BoundCall(self, plan, arguments, names)

        self._dispatcher = Dispatcher(gpu(), resolve, names)
        return self._dispatcher

    def function(self, cuda: CudaDriver) -> Any:
        """The driver's handle of the kernel in the current context, with its globals filled."""
        context = cuda.context()
        function = self._functions.get(context)
        if function is None:
            with self._lock:
                if context not in self._functions:
                    loaded = self._load(cuda)
                    self._filled.into(cuda, context, loaded)
                    self._functions[context] = loaded
            function = self._functions[context]
        return function

    @cached_property
    def plain(self) -> LoadedKernel:
        """The fallback kernel for arguments that tensor maps cannot describe. Raises LaunchError
        (TIR0710) if the program itself uses tensor maps."""
        fallback = self.compiled.fallback
        if fallback is None:
            raise launch_error("the arguments do not fit the kernel's tensor maps")
        return LoadedKernel(fallback)

    def non_tma_variant(self, units: tuple[int, ...] | None) -> LoadedKernel:
        """The kernel for arguments that the host plan rejects. `units` are the alignments of their
        tensors, None if no variant supports them."""
        with self._lock:
            if units not in self._non_tma_variants:
                variant = None if units is None else self.compiled.non_tma_variant(units)
                self._non_tma_variants[units] = (
                    self.plain if variant is None else LoadedKernel(variant)
                )
            return self._non_tma_variants[units]

    def split_k_variant(
        self, cuda: CudaDriver, grid: Sequence[int], numbers: list[int]
    ) -> LoadedKernel | None:
        """The kernel with split-K within a cluster, if the launcher may choose it and it is faster;
        None for this kernel."""
        if not self._chooses_split_k:
            return None
        key = (*grid, *self._integers(numbers))
        if key not in self._split_k_variants:
            if len(self._split_k_variants) >= _MOST_MAPS:
                self._split_k_variants.clear()
            # Few launches need it.
            from tileir.backend.performance_model.choose_split_k import best_ranks

            source, processors = self.compiled.stages["input"], cuda.multiprocessors()
            ranks = best_ranks(source, self.compiled.plan, grid, numbers, processors)
            self._split_k_variants[key] = self._of(ranks)
        return self._split_k_variants[key]

    @property
    def _chooses_split_k(self) -> bool:
        """Whether the launcher chooses the number of blocks that share K."""
        return self.compiled.options.split_k == 0 and "input" in self.compiled.stages

    def _integers(self, numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The integers among a kernel's words, each with its position."""
        words = [word for p in self.compiled.plan.parameters for word in p.words]
        return tuple(
            (i, n) for i, (n, word) in enumerate(zip(numbers, words, strict=True))
            if re.fullmatch(r"i\d+", word)
        )  # fmt: skip

    def _of(self, ranks: int) -> LoadedKernel | None:
        """This kernel with `ranks` blocks that share K; None if this kernel has that many."""
        variant = None if ranks == 1 else self.compiled.split_k_variant(ranks)
        if variant is None:
            return None
        return self._by_ranks.setdefault(ranks, LoadedKernel(variant))

    def blocks(self, cuda: CudaDriver) -> int:
        """The number of blocks, or clusters of blocks, that run at once in a persistent kernel."""
        if self._blocks is None:
            plan, processors = self.compiled.plan, cuda.multiprocessors()
            size = plan.cluster[0]
            self._blocks = max(1, processors // size)
            if size > 1:
                shared = plan.shared if plan.dynamic else 0
                resident = cuda.clusters(self.function(cuda), size, plan.threads, shared)
                self._blocks = max(1, min(self._blocks, resident))
        return self._blocks

    def map(self, cuda: CudaDriver, values: MapValues) -> Any:
        """A tensor map, encoded on the first request."""
        tensor_map = self._maps.get(values)
        if tensor_map is None:
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            tensor_map = self._maps[values] = encode_tensor_map(cuda, values)
        return tensor_map

    def start(
        self, cuda: CudaDriver, grid: Sequence[int], values: list[Any], stream: int,
        conditions: tuple[Condition, ...] = (),
    ) -> RepeatableLaunch:  # fmt: skip
        """Launch, in the current context, the version of this kernel that suits the C values.
        `conditions` are the conditions under which a launcher reaches this version. Raises
        `LaunchError` (TIR0711)."""
        host = self.compiled.host
        if host is None:
            return self._launch(cuda, grid, values, stream, conditions)
        x, y, z = (*grid, 1, 1)[:3]
        instances, numbers = (x, y, z), [as_number(value) for value in values]
        if self._chooses_split_k:
            variant = self.split_k_variant(cuda, grid, numbers)
            conditions += (SameGridAndWords(instances, self._integers(numbers)),)
            if variant is not None:
                return variant.start(cuda, grid, values, stream, conditions)
        blocks = self.blocks(cuda)
        planned = plan_launch(host, instances, numbers, blocks)
        if planned is None:
            units = host.non_tma_alignments((*numbers, 1, 1, 1)[: host.arguments])
            conditions += (Refused(host, units),)
            return self.non_tma_variant(units).start(cuda, grid, values, stream, conditions)
        values = [*values, *(ctypes.c_int32(n) for n in planned.extents)]
        values += [self.map(cuda, each) for each in planned.maps]
        conditions += (Planned(host, blocks),)
        return self._launch(cuda, planned.grid, values, stream, conditions)

    def _launch(
        self, cuda: CudaDriver, grid: Sequence[int], values: Sequence[Any], stream: int,
        conditions: tuple[Condition, ...],
    ) -> RepeatableLaunch:  # fmt: skip
        """Launch this version for a grid of instances, or of the persistent blocks that compute
        them."""
        plan, function = self.compiled.plan, self.function(cuda)
        shared = plan.shared if plan.dynamic else 0
        cuda.launch(function, plan.blocks(grid), plan.threads, shared, stream, values)
        program = LaunchProgram(conditions, plan.cluster)
        return RepeatableLaunch(int(function), plan.threads, shared, program)

    def _load(self, cuda: CudaDriver) -> Any:
        plan = self.compiled.plan
        function = cuda.load(self.compiled, plan.symbol)
        if plan.dynamic:
            cuda.allow_shared(function, plan.shared)
        if plan.cluster[0] > _PORTABLE:
            cuda.allow_clusters(function)
        return function


def _nothing(*arguments: Any, **keywords: Any) -> None:
    """The launch of a grid without instances: do nothing."""


def pack(parameters: Sequence[KernelParameter], arguments: Sequence[Any]) -> list[Any]:
    """Pack each argument as the C values that the kernel takes. Raises `LaunchError` (TIR0710)."""
    if len(parameters) != len(arguments):
        raise launch_error(f"the kernel takes {len(parameters)} arguments, not {len(arguments)}")
    packed: list[Any] = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        words = pack_argument(parameter, argument, 0, SpecializationPolicy()).words
        packed += c_values(parameter.words, words)
    return packed
