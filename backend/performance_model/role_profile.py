"""The work of the roles of a kernel per iteration, derived from the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod
from typing import Any

import attrs

from tileir.analysis.clusters import persistent_instances, ranks
from tileir.analysis.uses import definitions
from tileir.backend.performance_model.accesses import (
    TileAccess,
    accesses,
    by_depth,
    scattered_access_count,
)
from tileir.backend.performance_model.model_inputs import RoleProfile
from tileir.backend.performance_model.model_warp_specialized import HALF, LINE
from tileir.backend.processors import MAX_REGISTERS
from tileir.backend.tma.host_plan import ALIGNMENT, MapValues
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.types import Tile, element_of, shape_of
from tileir.values import Constant, Value

_LANES, _WARPS, _ROWS, _DEPTH = 32, 4, 64, 32
"""Threads of a warp, warps of a group that multiplies; rows, and bytes along K, of an instruction
(PTX ISA, wgmma)."""


def roles_of(
    module: Module, kernel: Function, maps: Sequence[MapValues] = ()
) -> RoleProfile | None:
    """The work of the roles of `kernel`, in the last stage of a compiled module; None if it is not
    warp-specialized. `maps` are its tensor maps for the arguments, if known; otherwise rows are
    assumed to begin at the start of a cache line."""
    started: list[Any] = [op for op in kernel.ops if op.mnemonic == "gpu.role"]
    if not started:
        return None
    tensor_maps = [op for op in kernel.entry.ops if op.mnemonic == "gpu.tensor_map"]
    places = dict(zip((op.results[0] for op in tensor_maps), maps, strict=False))
    roles = [_Role.of(module, kernel, op, places) for op in started]
    multiply, load = [r for r in roles if r.multiplies], [r for r in roles if not r.multiplies]
    sent = [op for r in multiply for op in r.function.ops if op.mnemonic == "gpu.cluster_scatter"]
    several = persistent_instances(kernel)
    cluster = ranks(module, kernel) // max(several, 1)
    shared = [copy.multicast for r in load for copy in r.copies()]
    loads = [each for r in load for each in r.loads("load", "gpu.async_copy")]
    scattered = sum(scattered_access_count(r.loads("load"), r.warps) for r in multiply[:1])
    return RoleProfile(
        requests=sum(r.requests() for r in load),
        num_stages=min((n for r in load for n in r.num_stages()), default=1),
        groups=max(1, sum(r.warps for r in multiply) // _WARPS),
        elements=float(sum(each.elements for each in loads)),
        loads=sum(each.instructions for each in loads),
        unit=min((each.size * each.width for each in loads), default=ALIGNMENT),
        limit=min((r.registers for r in load if r.registers), default=MAX_REGISTERS),
        asynchronous=bool(loads) and not any(r.loads("load") for r in load),
        odd=sum(r.odd() for r in multiply[:1]),
        arithmetic=sum(r.arithmetic() for r in multiply[:1]),
        registers=any(r.from_registers() for r in multiply[:1]),
        gathers=scattered,
        stores=sum(r.stores() for r in multiply[:1]),
        divisions=max((r.divisions() for r in load), default=0),
        cluster=cluster,
        remote=float(sum(_bytes(op.inputs[0]) for op in sent)),
        together=max(shared, default=1),
        alone=several > 0,
    )


@attrs.frozen(eq=False)
class _Role:
    """The function of a role. `arguments` maps its parameters to values of the kernel, `maps` maps
    values of the kernel to tensor maps."""

    function: Function
    kernel: Function
    warps: int
    registers: int
    arguments: Mapping[Value, Any]
    maps: Mapping[Any, MapValues]

    @staticmethod
    def of(module: Module, kernel: Function, op: Any, maps: Mapping[Any, MapValues]) -> _Role:
        """The role that `op` starts."""
        function = module.functions[op.callee]
        arguments = dict(zip((p.value for p in function.parameters), op.arguments, strict=True))
        return _Role(function, kernel, op.warps, op.registers, arguments, maps)

    @property
    def multiplies(self) -> bool:
        return any(op.mnemonic == "gpu.wgmma" for op in self.function.ops)

    def iteration_ops(self) -> list[Any]:
        """The ops of the innermost loops."""
        return by_depth(self.function)[0]

    def copies(self) -> list[Any]:
        """The copies of an iteration."""
        return self.ops_of_iteration("gpu.tma_load")

    def requests(self) -> float:
        """The number of requests of an iteration's copies to the L2 for cache lines. If several
        blocks share requests, this is the share of one block.

        Neighbouring blocks need the same part of the larger operand, since `order-programs`
        arranges instances that way.
        """
        by_base: dict[Any, list[Any]] = {}
        for op in self.copies():
            by_base.setdefault(self._base(op), []).append(op)
        each = [max(self._requests(op) for op in ops) for ops in by_base.values()]
        if not each:
            return 0.0
        together = max(op.multicast for op in self.copies())
        return sum(each) - max(each) * (1 - 1 / together)

    def _maker(self, value: Value) -> Any:
        """The kernel's op that defines the argument of a parameter; None if there is none."""
        argument = self.arguments.get(value)
        return definitions(self.kernel).get(argument) if isinstance(argument, Value) else None

    def _base(self, op: Any) -> Any:
        """The tensor from which `op` copies."""
        return getattr(self._maker(op.descriptor), "base", op.descriptor)

    def _requests(self, op: Any) -> float:
        """The number of L2 requests of a copy, whose rows are copied by panels."""
        value = self.arguments.get(op.descriptor)
        block: Any = op.descriptor.type.block
        size = block.element.bytes
        swizzle = getattr(self._maker(op.descriptor), "swizzle", 0)
        row = min(16 << swizzle, block.shape[-1] * size) if swizzle else block.shape[-1] * size
        strides = self.maps[value].strides if value in self.maps else ()
        return prod(block.shape) * size / row * _requests_per_row(row, gcd(HALF, *strides))

    def num_stages(self) -> Iterator[int]:
        """Yield the number of stages of each buffer that receives blocks in an iteration."""
        for op in self.iteration_ops():
            if op.mnemonic in ("gpu.tma_load", "gpu.local_store", "gpu.async_copy"):
                buffer = self._maker(op.buffer)
                if buffer is not None:
                    yield buffer.shape[0]

    def loads(self, *mnemonics: str) -> list[TileAccess]:
        """The loads of an iteration that threads issue: ops with one of these mnemonics."""
        return list(accesses(self.function, self.ops_of_iteration(*mnemonics)))

    def ops_of_iteration(self, *mnemonics: str) -> list[Any]:
        """The ops of an iteration with one of these mnemonics."""
        return [op for op in self.iteration_ops() if op.mnemonic in mnemonics]

    def stores(self) -> float:
        """The number of stores of threads in an instance."""
        stores = accesses(self.function, (x for x in self.function.ops if x.mnemonic == "store"))
        return sum(each.instructions for each in stores) * self.warps * _LANES

    def odd(self) -> float:
        """The number of instructions of an iteration with an N-major B that has an odd multiple of
        8 columns."""
        count = 0
        for op in self.iteration_ops():
            if op.mnemonic == "gpu.wgmma" and not op.trans_b and shape_of(op.c.type)[1] % 16:
                element = element_of(op.b.type).pointee  # type: ignore[union-attr]
                buffer = self._maker(op.b)
                depth = 0 if buffer is None else prod(buffer.shape[1:2]) * element.bytes
                count += shape_of(op.c.type)[0] // _ROWS * max(1, depth // _DEPTH)
        return float(count)

    def from_registers(self) -> bool:
        """Whether all wgmma of an iteration have A in registers."""
        in_registers = [
            isinstance(op.a.type, Tile) for op in self.iteration_ops() if op.mnemonic == "gpu.wgmma"
        ]
        return bool(in_registers) and all(in_registers)

    def arithmetic(self) -> float:
        """The number of elements that are computed in an iteration."""
        tiles = [op.results[0].type for op in self.iteration_ops() if op.elementwise and op.results]
        return float(sum(kind.size for kind in tiles if isinstance(kind, Tile)))

    def divisions(self) -> int:
        """The number of divisions by a value that is not a literal, outside the loop."""
        before: list[Op] = by_depth(self.function)[1]
        return sum(op.divides and not isinstance(op.inputs[1], Constant) for op in before)


def _requests_per_row(row: int, distance: int) -> float:
    """The number of requests for a row of `row` bytes that begins at any multiple of `distance`
    within half a cache line: one per line, or per half line that the row touches."""
    if distance % HALF == 0:
        return max(1.0, row / LINE)
    starts = range(0, HALF, distance)
    return sum(-(-(start + row) // HALF) for start in starts) / len(starts)


def _bytes(value: Any) -> int:
    return int(value.type.size * value.type.element.bytes)
