"""The variant of a kernel that a launcher selects for certain numbers: with tensor maps if these
are possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import attrs

from tileir.backend.compile import LoweredKernel
from tileir.backend.tma.host_plan import HostPlan, MapValues
from tileir.backend.tma.infer_descriptors import LARGEST
from tileir.ir import Function
from tileir.types import Pointer, Scalar

_ADDRESS = 1 << 30
"""The address of every array in estimates; allocators align arrays."""

Units = tuple[int, ...]
"""The value of `HostPlan.non_tma_alignments` for arguments, and of the option
`non_tma_alignments`."""


@attrs.frozen(eq=False)
class LaunchVariant:
    """The stages of the launched variant, its tensor maps, and the bytes of the arrays that have
    maps, None if that number is unknown."""

    staged: LoweredKernel
    maps: tuple[MapValues, ...] = ()
    footprint: float | None = None


def launched_variant(
    make: Callable[[Units], LoweredKernel], numbers: Mapping[str, int]
) -> LaunchVariant:
    """The variant that a launcher runs for integer arguments `numbers`, by name, and aligned
    arrays: `make(())`, or `make(units)` if tensor maps cannot describe some tensors. The result is
    also `make(())` if numbers are missing or no warp-specialized variant applies."""
    done = make(())
    host, arguments = _host_inputs(done, numbers)
    if host is None or arguments is None:
        return LaunchVariant(done)
    footprint, maps = _footprint(host, arguments), host.map_values(arguments)
    units = host.non_tma_alignments(arguments) if maps is None else None
    if units is not None:
        done = make(units)
        host, arguments = _host_inputs(done, numbers)
        maps = host.map_values(arguments) if host is not None and arguments is not None else None
    return LaunchVariant(done, maps or (), footprint)


def _host_inputs(
    done: LoweredKernel, numbers: Mapping[str, int]
) -> tuple[HostPlan | None, list[int] | None]:
    """The host plan of a kernel, and its inputs; None where `numbers` lacks one."""
    last = done.stages["barriers"]
    text = last.metadata.get("host.plan0")
    plan = None if text is None else HostPlan.from_text(str(text))
    return plan, _arguments(last.functions[done.kernel], numbers)


def _arguments(kernel: Function, numbers: Mapping[str, int]) -> list[int] | None:
    arguments: list[int] = []
    for parameter in kernel.parameters:
        name, kind = str(parameter.name), parameter.type
        if isinstance(kind, Pointer):
            arguments.append(_ADDRESS)
        elif isinstance(kind, Scalar) and not kind.is_integer:
            arguments.append(0)  # no plan reads it
        elif name in numbers or name.startswith("grid."):
            arguments.append(numbers.get(name, 1))
        else:
            return None
    return arguments


def _footprint(host: HostPlan, arguments: list[int]) -> float | None:
    """Bytes of the tensors of the maps, each once; None where one of them has no end."""
    sizes: dict[object, int] = {}
    for recipe, extents in host.tensors(arguments):
        if max(extents) > LARGEST:
            return None
        key = recipe.parameter if recipe.parameter >= 0 else recipe.base
        sizes[key] = max(sizes.get(key, 0), prod(extents) * recipe.size)
    return float(sum(sizes.values())) if sizes else None
