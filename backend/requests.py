"""Remarks about requests that a compilation did not follow (TIR0760), each with the reason.
Requests are options, and attributes of the kernel and of its loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileir.analysis.clusters import ranks
from tileir.backend.options import Options
from tileir.backend.target import Target
from tileir.errors import Diagnostic, Location
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.passmanager.registry import remark

_ROLE = "gpu.role"
_WGMMA = "gpu.wgmma"
_OF_ROLES = (
    "persistent",
    "pingpong",
    "ordered_softmax",
    "split_k",
    "multicast",
    "non_tma_alignments",
)
"""Options of warp-specialized kernels."""


@attrs.frozen
class KernelOutcome:
    """A lowered kernel: the module at the last stage, its name, whether it is warp-specialized, the
    remarks of passes, and whether register operands are prefetched."""

    module: Module
    kernel: str
    roles: bool
    notes: Sequence[Diagnostic]
    prefetched: bool

    @property
    def functions(self) -> Iterator[Function]:
        """The kernel and the functions of its roles."""
        kernel = self.module.functions[self.kernel]
        yield kernel
        yield from (self.module.functions[op.callee] for op in self._starts)

    @property
    def _starts(self) -> Iterator[Any]:
        ops: Iterable[Any] = self.module.functions[self.kernel].ops
        return (op for op in ops if op.mnemonic == _ROLE)

    def stage_counts(self) -> set[int]:
        """The numbers of stages of the circular buffers of the kernel."""
        ops = (op for function in self.functions for op in function.ops)
        shapes = [op.attributes["shape"] for op in ops if op.mnemonic == "gpu.shared_alloc"]
        return {shape[0] for shape in shapes if shape[0] > 1}

    def consumer_warps(self) -> list[int]:
        """The number of warps of each consumer role."""
        return [op.warps for op in self._starts if self._multiplies(op.callee)]

    def _multiplies(self, name: str) -> bool:
        ops = self.module.functions[name].ops
        return any(op.mnemonic.startswith(_WGMMA) for op in ops)

    def has_remark(self, *codes: str) -> bool:
        """Whether a pass has emitted a remark with one of `codes`."""
        return any(note.code in codes for note in self.notes)


def ignored_requests(
    source: Module, options: Options, machine: Target, outcome: KernelOutcome
) -> Iterator[Diagnostic]:
    """Remarks about requests of `source` and `options` that `outcome` does not follow."""
    kernel = source.functions[outcome.kernel]
    yield from _stages(kernel, options, outcome)
    yield from _loops(source, outcome)
    yield from _warps(kernel, options, outcome)
    yield from _prefetch(kernel, options, outcome)
    yield from _roles(kernel, options, machine, outcome)
    for name, why in (("num_ctas", "`cluster` asks for blocks of a cluster"),
                      ("max_registers", "the option `max_registers` limits them")):  # fmt: skip
        value = kernel.attributes.get(name, 1)
        if value not in (1, 0):
            yield _remark(f"{name} = {value}", why, kernel.location)


def lowered_level(options: Options, level: int, kernel: Function) -> Iterator[Diagnostic]:
    """Yield a remark if the code is optimized at a lower level than `options` request."""
    if level < options.opt_level:
        why = f"level {level} is used, since the code is long and more takes too much time"
        yield _remark(f"opt_level = {options.opt_level}", why, kernel.location)


def _stages(kernel: Function, options: Options, outcome: KernelOutcome) -> Iterator[Diagnostic]:
    requested, counts = options.num_stages, outcome.stage_counts()
    if outcome.roles and options.ring_stages:
        return
    if requested and requested not in (counts or {1}):
        yield _remark(f"num_stages = {requested}", _used(counts), kernel.location)


def _used(counts: set[int]) -> str:
    if not counts:
        return "1 is used, since no loop has loads that can be copied ahead of its dots"
    return f"{max(counts)} are used, as fits shared memory and the loop"


def _loops(source: Module, outcome: KernelOutcome) -> Iterator[Diagnostic]:
    counts = outcome.stage_counts()
    for function in source.functions.values():
        for op in function.ops:
            stages, unroll = _requests_of(op)
            if stages and stages not in (counts or {1}):
                yield _remark(f"stages = {stages} of the loop", _used(counts), op.location)
            if unroll and unroll > 1:
                why = "1 is used, since no pass unrolls loops"
                yield _remark(f"unroll = {unroll} of the loop", why, op.location)


def _requests_of(op: Op) -> tuple[int | None, int | None]:
    return getattr(op, "stages", None), getattr(op, "unroll", None)


def _warps(kernel: Function, options: Options, outcome: KernelOutcome) -> Iterator[Diagnostic]:
    requested = options.num_warps or kernel.attributes.get("num_warps")
    warps = outcome.consumer_warps()
    if outcome.roles and requested and warps and requested not in (sum(warps), warps[0]):
        why = f"the rows and registers of the dots allow {sum(warps)} consumer warps"
        yield _remark(f"num_warps = {requested}", why, kernel.location)


def _prefetch(kernel: Function, options: Options, outcome: KernelOutcome) -> Iterator[Diagnostic]:
    if options.prefetch_operands and not outcome.prefetched:
        why = "no loop is one dot by `mma` of two buffers in several steps of K"
        yield _remark("prefetch_operands = True", why, kernel.location)


def _roles(
    kernel: Function, options: Options, machine: Target, outcome: KernelOutcome
) -> Iterator[Diagnostic]:
    requests = _of_roles(kernel.attributes, options)
    if not outcome.roles:
        if not (machine.wgmma and machine.tma):
            why = f"{machine.name} has no wgmma and TMA, which warp specialization needs"
        elif options.warp_specialize is False:
            why = "warp_specialize = False"
        else:
            why = "the kernel has no dots that producer warps can load for"
        for name, value in requests.items():
            yield _remark(f"{name} = {value}", why, kernel.location)
        return
    if (
        requests.get("pingpong")
        and len(outcome.consumer_warps()) < 2
        and not outcome.has_remark("TIR0653")
    ):
        why = "the ping-pong schedule needs a persistent block and no split-K"
        yield _remark("pingpong = True", why, kernel.location)
    blocks = ranks(outcome.module, outcome.module.functions[outcome.kernel])
    for name in ("split_k", "multicast"):
        if requests.get(name, blocks) != blocks and not outcome.has_remark("TIR0654", "TIR0655"):
            why = f"a cluster has {blocks} blocks"
            yield _remark(f"{name} = {requests[name]}", why, kernel.location)


def _of_roles(attributes: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """The requests that concern warp specialization, by name. Options take precedence over
    attributes."""
    requests: dict[str, Any] = {}
    for name in ("warp_specialize", *_OF_ROLES):
        option = getattr(options, name)
        value = attributes.get(name) if option in (None, ()) else option
        if value not in (None, False, 0, 1) or value is True:
            requests[name] = value
    return requests


def _remark(what: str, why: str, location: Location | None) -> Diagnostic:
    return remark("TIR0760", f"{what} is not followed: {why}", location)
