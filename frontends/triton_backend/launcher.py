"""Launches of Triton's kernels by versions with tensor maps.

Triton's launchers pass the kernel's parameters and nothing else. A kernel whose dots read blocks of
strided tensors has a second version: warp-specialized, with tensor maps that the host encodes
before a launch. It is launched by tileir's dispatcher, which caches the maps by their contents
(`tileir.backend.runtime.dispatch`). Where it does not apply, Triton's launcher launches the first
version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from operator import itemgetter
from typing import Any

from tileir.analysis.loops import Loop, loops, trip_count
from tileir.backend.compile import is_warp_specialized
from tileir.backend.executors import gpu_calls
from tileir.backend.options import Options
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disjoint import separate, separation
from tileir.backend.target import target as target_named
from tileir.errors import TileirError
from tileir.executor import KernelCall
from tileir.frontends import ttir
from tileir.ir import Function, Module
from tileir.types import shape_of
from tileir_triton.launching import TENSOR_MAPS

Launch = Callable[..., Any]
"""`launch(x, y, z, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook,
*arguments)`, the arguments with the constant ones: Triton's launchers, 3.3 to 3.9."""


def options_with_maps(
    module: Module, kernel: str, options: Mapping[str, Any], target: str
) -> dict[str, Any]:
    """The options of the version of `kernel` with tensor maps, for the kernel's metadata; empty
    where there is none. The version is compiled into tileir's cache, for launches to find it."""
    chosen = {name: max(options[name], 1) for name in ("num_warps", "num_stages")}
    machine = target_named(target)
    if not (machine.tma and machine.wgmma) or not _keeps_tensor_cores_busy(
        module.functions[kernel]
    ):
        return {}
    compared = separation(module.functions[kernel])
    if compared is not None:  # arrays of torch seldom overlap
        module = separate(module, kernel, compared.written)
    if not is_warp_specialized(module, target, chosen, kernel):
        return {}
    compiled = Cache.usual().compile(module, target, Options.of(chosen), kernel)
    return {} if compiled.host is None else chosen


def _keeps_tensor_cores_busy(function: Function) -> bool:
    """Whether all dots of `function` are in loops, each innermost loop has dots and is not known to
    be short, each dot has the rows of two warpgroups, and the only dot of a loop has as many
    elements as registers hold. A warp-specialized block has a processor for itself: where only some
    phases multiply, or few warps do, the latency of the others shows, which more resident blocks
    would hide."""
    around = loops(function)
    shapes = {
        label: [shape_of(op.results[0].type) for op in block.ops if op.mnemonic == "dot"]
        for label, block in function.blocks.items()
    }
    outer = {loop.parent for loop in around.by_header.values()}
    innermost = [loop for header, loop in around.by_header.items() if header not in outer]
    dots = [(label, shape) for label, each in shapes.items() for shape in each]
    return (
        bool(dots)
        and all(shape[-2] >= _FEWEST_ROWS and around.depth(label) > 0 for label, shape in dots)
        and all(
            _fills([shape for label in loop.blocks for shape in shapes[label]])
            and _is_long(function, loop)
            for loop in innermost
        )
    )


def _fills(shapes: list[tuple[int, ...]]) -> bool:
    """Whether the accumulators of a loop are worth a processor."""
    return len(shapes) > 1 or any(prod(shape) >= _FEWEST_ELEMENTS for shape in shapes)


_FEWEST_ELEMENTS = 128 * 256
"""128 registers of each thread of two warpgroups."""

_FEWEST_ROWS = 128
"""What two warpgroups multiply by one instruction each."""


def _is_long(function: Function, loop: Loop) -> bool:
    counted = trip_count(function, loop)
    return counted is None or counted.count is None or counted.count >= _FEWEST_ITERATIONS


_FEWEST_ITERATIONS = 8
"""Twice the stages of a deep pipeline: below, filling and draining it is most of the time."""


def launcher_with_maps(kernel: Any, own: Launch) -> Launch:
    """A launcher of `kernel`, a `CompiledKernel` of Triton, before its `own`; `own` where the
    arguments of the kernel cannot be told from its signature."""
    signature = getattr(kernel.src, "signature", None)
    if not isinstance(signature, Mapping):
        return own
    kinds = [str(kind) for kind in signature.values()]
    passed = [i for i, kind in enumerate(kinds) if kind != "constexpr"]
    nested = any(kind.startswith(("(", "[", "tensordesc", "nvTmaDesc")) for kind in kinds)
    if nested or not passed:
        return own
    text = kernel.asm.get("ttir")  # a kernel that Inductor loads by its cubin alone has none
    if text is None:
        return own
    chosen: Mapping[str, Any] = getattr(kernel.metadata, TENSOR_MAPS)
    return _Launcher(text, kernel.metadata.name, own, chosen, len(kinds), passed).launch


class _Launcher:
    """Launches of the kernel `name` of a TTIR `text`, with `count` arguments of which those at
    `passed` are parameters."""

    def __init__(
        self, text: str, name: str, own: Launch, options: Mapping[str, Any], count: int,
        passed: list[int],
    ) -> None:  # fmt: skip
        self.text, self.name, self.own = text, name, own
        self.options, self.count = dict(options), count
        self.select = (
            itemgetter(*passed) if len(passed) > 1 else lambda arguments: (arguments[passed[0]],)
        )
        self.dispatcher: Any = None
        self.fails = False

    def launch(
        self, x: int, y: int, z: int, stream: int, function: int, packed: Any, metadata: Any,
        enter: Any, exit: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        """Launch the version with tensor maps; the other one for a profiler's hooks, and from the
        first failure on."""
        calls = _calls_of(enter) or _calls_of(exit)
        if not (calls or self.fails) and len(arguments) == self.count:
            try:
                dispatcher = self.dispatcher or self._make_dispatcher()
                dispatcher.call((x, y, z), *self.select(arguments), stream=stream)
            except TileirError:
                self.fails = True
            else:
                return
        self.own(x, y, z, stream, function, packed, metadata, enter, exit, *arguments)

    def _make_dispatcher(self) -> Any:
        name = self.name
        module = read_ttir(self.text, name, self.options)
        parameters = module.functions[name].parameters
        names = tuple(p.name or f"a{i}" for i, p in enumerate(parameters))

        def resolve(_: Any, arguments: tuple[Any, ...], __: dict[str, Any]) -> KernelCall:
            values, every = dict(zip(names, arguments, strict=True)), frozenset(names)
            return KernelCall(module, name, values, {}, self.options, every, reinterpreted=every)

        self.dispatcher = gpu_calls().dispatch(resolve, names)
        return self.dispatcher


def _calls_of(hook: Any) -> Any:
    """What a launcher's hook calls: itself, in Triton 3.5 and later the functions in a chain."""
    return getattr(hook, "calls", hook)


def read_ttir(text: str, name: str, options: Mapping[str, Any], overlapped: bool = False) -> Module:
    """The module of a kernel's TTIR, compiled with these `num_warps` and `num_stages`. Raises
    `TileirError`."""
    return ttir.read(
        text, f"{name}.ttir", overlapped=overlapped, num_stages=options["num_stages"],
        num_warps=options["num_warps"],
    )  # fmt: skip
