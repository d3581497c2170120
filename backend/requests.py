"""Requests that a compilation did not follow, as remarks (TIR0760): options, attributes of the
kernel and of its loops that ask for something else than what was made, and why."""

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

_ROLE, _PRODUCT = "gpu.role", "gpu.wgmma"
_OF_ROLES = (
    "persistent",
    "pingpong",
    "ordered_softmax",
    "split_k",
    "multicast",
    "non_tma_alignments",
)
"""Options of kernels whose warps have roles; `roles` asks for them."""


@attrs.frozen
class Made:
    """What came of a kernel: the module at the last stage, its name, whether warps have roles, what
    passes remarked, and whether fragments are read ahead."""

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
        """How many stages the circular buffers of the kernel have."""
        ops = (op for function in self.functions for op in function.ops)
        shapes = [op.attributes["shape"] for op in ops if op.mnemonic == "gpu.shared_alloc"]
        return {shape[0] for shape in shapes if shape[0] > 1}

    def multiplying(self) -> list[int]:
        """Warps of each role that multiplies."""
        return [op.warps for op in self._starts if self._multiplies(op.callee)]

    def _multiplies(self, name: str) -> bool:
        ops = self.module.functions[name].ops
        return any(op.mnemonic.startswith(_PRODUCT) for op in ops)

    def said(self, *codes: str) -> bool:
        """Whether a pass has remarked upon it already."""
        return any(note.code in codes for note in self.notes)


def unfollowed(
    source: Module, options: Options, machine: Target, made: Made
) -> Iterator[Diagnostic]:
    """Remarks about what `source` and `options` ask for and `made` has not."""
    kernel = source.functions[made.kernel]
    yield from _stages(kernel, options, made)
    yield from _loops(source, made)
    yield from _warps(kernel, options, made)
    yield from _prefetch(kernel, options, made)
    yield from _roles(kernel, options, machine, made)
    for name, why in (("num_ctas", "`cluster` asks for blocks of a cluster"),
                      ("max_registers", "the option `max_registers` limits them")):  # fmt: skip
        value = kernel.attributes.get(name, 1)
        if value not in (1, 0):
            yield _remark(f"{name} = {value}", why, kernel.location)


def lowered_level(options: Options, level: int, kernel: Function) -> Iterator[Diagnostic]:
    """A remark where code is optimised at less than `options` ask for."""
    if level < options.opt_level:
        why = f"level {level} is used, since the code is long and more takes too much time"
        yield _remark(f"opt_level = {options.opt_level}", why, kernel.location)


def _stages(kernel: Function, options: Options, made: Made) -> Iterator[Diagnostic]:
    wanted, counts = options.num_stages, made.stage_counts()
    if wanted and wanted not in (counts or {1}):
        yield _remark(f"num_stages = {wanted}", _used(counts), kernel.location)


def _used(counts: set[int]) -> str:
    if not counts:
        return "1 is used, since no loop has loads that can be copied ahead of its dots"
    return f"{max(counts)} are used, as fits shared memory and the loop"


def _loops(source: Module, made: Made) -> Iterator[Diagnostic]:
    counts = made.stage_counts()
    for function in source.functions.values():
        for op in function.ops:
            stages, unroll = _asked(op)
            if stages and stages not in (counts or {1}):
                yield _remark(f"stages = {stages} of the loop", _used(counts), op.location)
            if unroll and unroll > 1:
                why = "1 is used, since no pass unrolls loops"
                yield _remark(f"unroll = {unroll} of the loop", why, op.location)


def _asked(op: Op) -> tuple[int | None, int | None]:
    return getattr(op, "stages", None), getattr(op, "unroll", None)


def _warps(kernel: Function, options: Options, made: Made) -> Iterator[Diagnostic]:
    wanted = options.num_warps or kernel.attributes.get("num_warps")
    found = made.multiplying()
    if made.roles and wanted and found and wanted not in (sum(found), found[0]):
        why = f"{sum(found)} warps multiply, as the rows and registers of the products allow"
        yield _remark(f"num_warps = {wanted}", why, kernel.location)


def _prefetch(kernel: Function, options: Options, made: Made) -> Iterator[Diagnostic]:
    if options.prefetch_operands and not made.prefetched:
        why = "no loop is one dot by `mma` of two buffers in several steps of K"
        yield _remark("prefetch_operands = True", why, kernel.location)


def _roles(kernel: Function, options: Options, machine: Target, made: Made) -> Iterator[Diagnostic]:
    asked = _of_roles(kernel.attributes, options)
    if not made.roles:
        if not (machine.wgmma and machine.tma):
            why = f"{machine.name} has no warpgroup matmuls, which roles of warps are for"
        elif options.warp_specialize is False:
            why = "warp_specialize = False"
        else:
            why = "the kernel has no dots that roles of warps can load for"
        for name, value in asked.items():
            yield _remark(f"{name} = {value}", why, kernel.location)
        return
    if asked.get("pingpong") and len(made.multiplying()) < 2 and not made.said("TIR0653"):
        why = "turns need a block that works for many instances, and are not shared"
        yield _remark("pingpong = True", why, kernel.location)
    blocks = ranks(made.module, made.module.functions[made.kernel])
    for name in ("split_k", "multicast"):
        if asked.get(name, blocks) != blocks and not made.said("TIR0654", "TIR0655"):
            why = f"a cluster has {blocks} blocks"
            yield _remark(f"{name} = {asked[name]}", why, kernel.location)


def _of_roles(attributes: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """What is asked for of roles, by name: options first."""
    found: dict[str, Any] = {}
    for name in ("warp_specialize", *_OF_ROLES):
        option = getattr(options, name)
        value = attributes.get(name) if option in (None, ()) else option
        if value not in (None, False, 0, 1) or value is True:
            found[name] = value
    return found


def _remark(what: str, why: str, location: Location | None) -> Diagnostic:
    return remark("TIR0760", f"{what} is not followed: {why}", location)
