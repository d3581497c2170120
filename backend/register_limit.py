"""The register limit for ptxas: with fewer registers more blocks are resident, with more registers
more loads are in flight.

ptxas allocates registers without regard to the number of resident blocks. A kernel of 512 threads
with 69 registers has one resident block; with 64 registers it has two, which hide each other's
latency. On the other hand, ptxas aims at registers for as many threads as a multiprocessor can
have: it then waits for one load before it issues the next, so that both use the same registers.
`GpuModel` estimates which code is faster.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import inf

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.backend.assembler import Assembled
from tileir.backend.demand import registers
from tileir.backend.gpu_models import GpuModel
from tileir.backend.joint_loads import with_joint_loads
from tileir.backend.machine_code import (
    INSTRUCTION_BYTES,
    LoadsInFlight,
    code_bytes,
    independent_loads,
    spills_around_loops,
)
from tileir.backend.options import CodeVariant
from tileir.backend.target import REGISTER_GRAIN
from tileir.errors import CompileError
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import AsyncCopy
from tileir.ops.memory import Load, Store
from tileir.types import Tile

_LEAST = 0.01
"""The least part of the time for which a kernel is assembled again. Of 357 kernels of public
libraries 20 were assembled again for half of it or more: four gained, 0.6 % at most."""

_LEAST_OF_DOTS = 0.008
"""The same for a limit of kernels with dots, whose blocks wait at a barrier in each iteration: they
have a sixth block for five."""

_LEAST_OF_LOADS = 0.006
"""The same where more loads would be in flight. The model expects little of these: where it expects
1 %, a kernel took 16 % less time with 24 registers in flight than with 17."""

_LEAST_OF_SECOND = 0.012
"""The same for a limit of code that has more loads in flight already. Of nine kernels of public
libraries for which the model expects 1 to 2 % three gained, for which it expects 1.25 % or more."""

_LEAST_IN_FLIGHT = 0.85
"""The least part of what all blocks of a multiprocessor have in flight that is kept where a block
has more loads in flight. On an H200 kernels with 0.56, 0.6 and 0.8 of it took 7, 45 and 69 % more
time; two with 0.89 and 0.97 took 17 and 9 % less."""

_ENOUGH_IN_FLIGHT = 512
"""The words of 128 bytes in flight on a multiprocessor above which a block gains nothing by more
loads together: 64 KiB, three times what Little's law asks for at 4.8 TB/s and 600 ns. Of 263
kernels of public libraries 12 had more loads together and fewer blocks; the five that were measured
without took 0 to 17 % less time on an H200."""

_MORE_IN_FLIGHT = 1.5
"""The least ratio of what all blocks of a multiprocessor have in flight with barriers to what they
have without."""

_SMALL_BLOCK = 4
"""Warps of a block from which a launch is assumed to have as many blocks as are resident. A launch
of smaller ones often has fewer, and then fewer loads are in flight than these blocks could have:
five layer norms and gradients, of rows of 512 by 1,024 blocks of one warp, took 6 to 17 % more time
on an H200 where half of their loads waited for the other half."""

_LEAST_OF_VARIANTS = {
    CodeVariant.PROGRAM_ORDER: 0.05, CodeVariant.ALTERNATING: 0.02, CodeVariant.SCHEDULED: 0.02,
    CodeVariant.UNREDUCED: 0.02, CodeVariant.RECOMPUTED: 0.02,
}  # fmt: skip
"""The least part of the time for which a kernel is generated again as a variant. Of 383 kernels of
public libraries 28 are scheduled, and nine gain; one that gains 0.02 to 0.04 by the model took 10
to 20 % less time on an H200."""

_FEWEST_OF_VARIANTS = {
    CodeVariant.PROGRAM_ORDER: 2 / 3, CodeVariant.ALTERNATING: 0.75, CodeVariant.SCHEDULED: 0.75,
    CodeVariant.UNREDUCED: 0.75, CodeVariant.RECOMPUTED: 2 / 3,
}  # fmt: skip
"""The least part of the registers that a variant takes. Of 613 kernels of public libraries 15 were
generated again in program order for what one register would gain, and two gained: one of them for
0.68 of its registers. For what this part would gain four are, both of these among them. One of 383
took fewer when scheduled."""

_FEWEST_OF_SEPARATE = 0.8
"""The least part of the registers of `OVERLAPPED` that `DEPTH_FIRST` takes, as a rule."""

_ALIVE = {
    CodeVariant.SCHEDULED: 0.9, CodeVariant.UNREDUCED: 0.99, CodeVariant.RECOMPUTED: 0.9,
}  # fmt: skip
"""The part of the registers alive at once in PTX up to which a variant is likely to take fewer, or
to spill less. Of 418 kernels of public libraries 22 were assembled as one of these variants with as
few alive, and twelve gained. Those that spill less took 4 to 29 % less time on an H200. Of 32 that
were assembled with more alive three gained: 4 of 304 spilled bytes, and loads in flight. Of 12
kernels that spill, seven spill less with recomputed addresses: one nothing for 144 bytes, another
184 for 500."""

_ALIVE_OF_WAITING = 0.99
"""The same for `SCHEDULED` where loads wait for each other: another order may have more of them in
flight. Two loops of dots with 24 and 28 registers of loads in flight took 4 and 6 % less time on an
H200 than with 20 and 19."""

_LEAST_SPILLED = 0.01
"""The least part of the instructions that store and load spilled registers, for which a kernel is
generated again."""

_MOST_SPILLED = 64
"""The most bytes that a thread spills around its loops for a second resident block. For a third, 24
bytes cost a kernel 1 to 2 % of its time on an H200."""

_WORD = 4
"""Bytes of a spilled register."""

_FEWEST = 0.8
"""The part of the registers below which a limit spills or separates loads, as a rule. Of 613
kernels of public libraries 23 were assembled with a limit between 0.75 and 0.82 of their registers:
22 spilled, and one did not. Of 29 with a limit above nine gained. Two with 0.8 and 0.808 have three
blocks for two."""

_FEWEST_OF_DOTS = 0.84
"""The same for kernels with dots of which two blocks or more are resident, but not for dots of
warpgroups, which may spill around loops. Accumulators do not become fewer: of 66 such kernels nine
have a limit above the part before, of which those six spill that are below this one. Of five
kernels of warpgroups with 0.8 to 0.836 one spills, around its loop."""

_PER_LOAD = 0.5
"""The fewest registers more for each that a load fills, if another load is in flight as well, as a
rule: its address is no longer needed. Most of the same kernels took 0.55 or more."""

_BEFORE_LOOPS = 1.5
"""The most loads of a basic block of a prefetched kernel for each of the kernel itself, as a rule:
the block before a loop has those of the first iteration, too. Of eleven kernels three have 1.3 to
1.5 times as many, the others as many."""

_PADDING = 128
"""Bytes to a multiple of which ptxas pads code."""

_UNLIMITED = ".minnctapersm 1"
"""The directive with which ptxas aims at no more than one resident block."""


_STATE = 64
"""The fewest registers of a thread that the state of a recurrence fills."""

_NAME = re.compile(r"(%(p|rs|r|f|rd|fd|rq)\d+)\b")
_LABEL = re.compile(r"(\$L\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$L\w+)")
_STEP = re.compile(r"\tadd\.s(?:16|32|64) \t(%\w+), (?:\1,|%\w+, \1;)")

_HALVES = {"p": 0, "rs": 1, "r": 2, "f": 2, "rd": 4, "fd": 4, "rq": 8}
"""Halves of registers by the class of LLVM's virtual registers. Predicates have their own."""


@attrs.frozen
class Likely:
    """A variant that may be better, and its PTX. `part` is the part of the registers alive at once
    in the PTX of the kernel itself that are alive in this one."""

    variant: CodeVariant
    ptx: str
    part: float


@attrs.frozen
class RegisterChoice:
    """The choice for a kernel whose blocks have `warps` warps and `shared` bytes of shared memory.

    With `alone`, a multiprocessor is likely to have a single block whatever fits, so a limit is
    used only if it costs nothing. With `dots`, loads are copied ahead; a limit is then tried if a
    multiprocessor would otherwise have a single block, which waits at every barrier, or if few
    registers are missing. Dots of `warpgroups` run while their threads issue other instructions:
    more of these take no time, and a few registers may be spilled around loops. PTX that is
    `bounded` has a limit, and gets no other.
    """

    machine: GpuModel
    warps: int
    shared: int
    alone: bool
    dots: bool = False
    bounded: bool = False
    warpgroups: bool = False

    def best(self, ptx: str, code: Assembled, assemble: Callable[[str], Assembled]) -> Assembled:
        """The code with the least estimated time: `code`, which was assembled from `ptx`, or the
        result of `assemble` with another register limit. Code that takes more registers is also
        tried with a limit, if that is likely to save much. Code that spills is a candidate only if
        `code` spills more."""
        if self.bounded or not code.registers or ".reqntid" not in ptx:
            return code
        if code.spills:
            return self._with_all_registers(ptx, code, assemble)
        code = self._with_spare_registers(ptx, code, assemble)
        best, least = code, self._waiting(code)
        directives = list(self._directives(code))
        results: dict[str, Assembled | None] = {}  # a limit may be that of two numbers of registers
        while directives:
            directive, expected = directives.pop(0)
            is_free = self.alone and directive != _UNLIMITED
            required = _LEAST_OF_LOADS if directive == _UNLIMITED else self._least
            if not is_free and least - expected < required:
                continue
            if directive not in results:
                results[directive] = assembled_within(ptx, directive, assemble)
            assembled = results[directive]
            if assembled is None:
                continue
            if directive == _UNLIMITED:
                if not self._has_more_loads(assembled, code):
                    continue
                directives[:0] = self._limits(assembled, _LEAST_OF_SECOND)
            grown = 0.0 if self.warpgroups else _growth(code, assembled)
            time = self._waiting(assembled) + grown
            fewer = is_free and time == least and assembled.registers < best.registers
            if self._spills_little(assembled, code) and (time < least or fewer):
                best, least = assembled, time
        return self._with_joint_loads(ptx, best, assemble)

    def _with_joint_loads(
        self, ptx: str, code: Assembled, assemble: Callable[[str], Assembled]
    ) -> Assembled:
        """`code`, or, if its loads wait for each other, the code with barriers that hold them
        together, if all resident blocks have clearly more in flight then."""
        before = self._in_flight(code)
        if self.dots or not _waits(code) or self.warps * before > _ENOUGH_IN_FLIGHT:
            return code
        together = LoadsInFlight.of(code.cubin).together
        few = independent_loads(code.cubin) < _MORE_IN_FLIGHT * together
        joint = ptx if few else with_joint_loads(ptx)
        if joint == ptx:
            return code
        other = assemble(joint)
        gains = self._in_flight(other) >= _MORE_IN_FLIGHT * before
        return other if gains and not other.spills else code

    def _spills_little(self, code: Assembled, than: Assembled) -> bool:
        """Whether `code` spills nothing, or a few registers around loops of warpgroups: a value
        that is needed after a loop is stored before it, once. That is worth a second resident
        block, where `than` has one, and not a third."""
        if not code.spills:
            return True
        few = self.warpgroups and code.spills <= _MOST_SPILLED
        is_alone = self._fitting(than.registers) == 1
        return few and is_alone and spills_around_loops(code.cubin)

    def _with_all_registers(
        self, ptx: str, code: Assembled, assemble: Callable[[str], Assembled]
    ) -> Assembled:
        """`code`, which spills, or the code that ptxas generates when it may use all registers, if
        that spills less. To have more resident threads, ptxas 13.0 may keep to 32 or 64 registers
        even if it spills most values then: a block of one warp used 4,224 bytes of local memory per
        thread with 64 registers, and 1,672 with 255."""
        if not self._may_have_more(code.registers):
            return code
        assembled = assemble(with_directive(ptx, _UNLIMITED))
        return assembled if assembled.spills < code.spills else code

    def _with_spare_registers(
        self, ptx: str, code: Assembled, assemble: Callable[[str], Assembled]
    ) -> Assembled:
        """`code`, or, if it has dots and ptxas kept to the registers with which more blocks would
        be resident than shared memory lets be, the code that ptxas generates when it knows their
        number. With more registers, fragments are loaded before the previous dot has read its own.
        As many blocks fit then, also where a single one is likely to be resident: a launch may have
        more.
        """
        if not self.dots or not self._leaves_registers(code.registers):
            return code
        fitting = self._fitting(code.registers)
        other = assembled_within(ptx, f".minnctapersm {fitting}", assemble)
        if other is None or other.spills or other.registers <= code.registers:
            return code
        return other if self._fitting(other.registers) >= fitting else code

    def _leaves_registers(self, registers: int) -> bool:
        """Whether `registers` are the most with which some number of blocks fits the register file,
        and so few blocks fit shared memory that each could have more."""
        target = self.machine.target
        fitting, fewer = (
            target.registers_per_processor // target.register_words(self.warps, n)
            for n in (registers, registers + REGISTER_GRAIN)
        )
        return self._fitting(registers) <= fewer < fitting

    def may_gain(self, variant: CodeVariant, code: Assembled) -> bool:
        """Whether it is worth generating the kernel again as `variant`: it may spill clearly less
        than `code`, or take so few registers that more blocks are resident and enough time is
        saved. Variants with another order of instructions are tried only for kernels without dots
        that do not spill."""
        if variant is CodeVariant.PREFETCHED:
            return self._may_be_prefetched(code)
        if code.spills:
            moves = 2 * code.spills // _WORD
            part = moves * INSTRUCTION_BYTES / max(1, code_bytes(code.cubin))
            return variant in _ALIVE and part >= _LEAST_SPILLED
        if self.alone or not code.registers or (variant not in _ALIVE and self.dots):
            return False
        return self.variant_limit(variant, code) is not None

    def variant_limit(self, variant: CodeVariant, code: Assembled) -> int | None:
        """The limit of the registers of `variant` with which so many more blocks are resident than
        with `code`, which does not spill, that it is worth generating."""
        part, least = _FEWEST_OF_VARIANTS[variant], _LEAST_OF_VARIANTS[variant]
        return self._most_registers(code.registers, part, least)

    def of_variant(
        self, likely: Likely, code: Assembled, assemble: Callable[[str], Assembled]
    ) -> Assembled:
        """The better one of `code` and the result of `assemble` of a variant. If the variant has to
        let more blocks be resident than `code`, and is unlikely to take as few registers as that
        needs, it is assembled with a limit. A limit separates loads."""
        variant, ptx = likely.variant, likely.ptx
        if variant is CodeVariant.PREFETCHED:
            return self.better_prefetched(code, assemble(ptx))
        is_free = code.spills or self._is_for_loads(variant, code)
        limit = None if is_free else self.variant_limit(variant, code)
        if limit is not None and likely.part * code.registers > limit:
            limited = assembled_within(ptx, f".maxnreg {limit}", assemble)
            return code if limited is None else self.better(code, limited, variant)
        other = assemble(ptx)
        if other.spills and other.registers < code.registers:
            other = self.best(ptx, other, assemble)
        return self.better(code, other, variant)

    def _may_be_prefetched(self, code: Assembled) -> bool:
        """Whether at most half of the loads of `code`, which has no dots and does not spill, are in
        flight together, and all resident blocks could have more than twice as many in flight with
        the registers that these fill."""
        if self.dots or code.spills or not code.registers:
            return False
        loads = LoadsInFlight.of(code.cubin)
        needed = code.registers + int(_PER_LOAD * (loads.block - loads.together))
        most = self._resident(needed) * int(_BEFORE_LOOPS * loads.block)
        return _waits(code) and most > 2 * self._in_flight(code)

    def better_prefetched(self, code: Assembled, other: Assembled) -> Assembled:
        """`other`, whose loads are one iteration ahead, if it spills nothing, and all resident
        blocks have more than twice as many loads in flight as those of `code`; else `code`."""
        gains = self._in_flight(other) > 2 * self._in_flight(code)
        return other if gains and not other.spills else code

    def may_be_smaller(self, overlapped: Assembled, moved: int) -> bool:
        """Whether more blocks may be resident with the code in which loads and dots wait for each
        other, or nothing is spilled: in `overlapped`, `moved` registers are alive for longer."""
        before = overlapped.registers
        least = max(before - moved, int(_FEWEST_OF_SEPARATE * before), 1)
        return bool(overlapped.spills) or self._fitting(least) > self._fitting(before)

    def better_overlapped(self, code: Assembled, other: Assembled) -> Assembled:
        """`other`, in which loads and dots wait for each other less, if it spills nothing, and as
        many blocks are resident as with `code`; else `code`."""
        is_free = self._fitting(other.registers) >= self._fitting(code.registers)
        return other if is_free and not other.spills else code

    def likeliest(
        self, ptx: str, others: Mapping[CodeVariant, str], code: Assembled
    ) -> Likely | None:
        """The variant of `others`, PTX by variant, with the fewest live registers, if these are so
        few that it is likely to gain: to take fewer registers than `code`, which was assembled from
        `ptx`, to spill less, or to have more loads in flight. Variants whose PTX is `ptx` do not
        count. None if there is none."""
        texts = {variant: text for variant, text in others.items() if text != ptx}
        if not texts:
            return None
        before, likely = live_halves(ptx), list[Likely]()
        for variant, text in texts.items():
            part, most = live_halves(text) / max(1, before), _ALIVE.get(variant, inf)
            if self._is_for_loads(variant, code):
                most = _ALIVE_OF_WAITING
            if part <= most:
                likely.append(Likely(variant, text, part))
        return min(likely, key=lambda each: each.part, default=None)

    def _is_for_loads(self, variant: CodeVariant, code: Assembled) -> bool:
        """Whether `variant` may have more loads in flight than `code`, of which at most half are in
        flight together."""
        return variant is CodeVariant.SCHEDULED and not code.spills and _waits(code)

    def better(
        self, code: Assembled, other: Assembled, variant: CodeVariant | None = None
    ) -> Assembled:
        """`other` if it spills less than `code`, or spills nothing and takes less time; else
        `code`. Instructions that are computed again, in a loop, are charged."""
        if code.spills:
            return other if other.spills < code.spills else code
        gain = self._waiting(code) - self._waiting(other)
        if variant is CodeVariant.RECOMPUTED:
            gain -= _growth(code, other)
        return other if not other.spills and gain >= _LEAST else code

    def _directives(self, code: Assembled) -> Iterator[tuple[str, float]]:
        """Yield the register limits that may save time, each with the least possible time."""
        loads = LoadsInFlight.of(code.cubin)
        is_enough = self.warps >= _SMALL_BLOCK and self._is_enough(code)
        if loads.together < loads.block and not self.dots and not is_enough:
            most = min(loads.block, independent_loads(code.cubin))
            needed = code.registers + int(_PER_LOAD * (most - loads.together))
            if self._is_bounded(code.registers, needed):
                blocks = max(1, self._resident(needed))
                yield _UNLIMITED, self.machine.waiting(blocks, self.warps * most)
        yield from self._limits(code, self._least)

    def _limits(self, code: Assembled, gain: float) -> Iterator[tuple[str, float]]:
        """Yield the limit with which so many more blocks are resident than with `code` that the
        `gain` is possible, and the least time if as many loads are in flight."""
        limit = None if self.alone and self.dots else self.limit(code.registers, gain)
        if limit is not None:
            words = self.warps * max(1, LoadsInFlight.of(code.cubin).together)
            yield f".maxnreg {limit}", self.machine.waiting(self._resident(limit), words)

    def _is_bounded(self, registers: int, needed: int) -> bool:
        """Whether ptxas may have limited itself to `registers`, although loads would fill `needed`,
        in order to have more resident threads. It has not if `needed` registers allow as many
        blocks as the fewest registers do, or if `registers` are all that a thread may have. It does
        not matter if only one block is resident: the loads then wait for another reason."""
        target = self.machine.target
        if not self._may_have_more(registers):
            return False
        most = target.resident_blocks(self.warps, target.register_words(self.warps, 1), self.shared)
        resident, needed_blocks = (
            target.resident_blocks(self.warps, target.register_words(self.warps, n), self.shared)
            for n in (registers, needed)
        )
        return resident > 1 and needed_blocks < most

    def limit(self, registers: int, gain: float | None = None) -> int | None:
        """The largest number of registers of a thread with which more blocks are resident than with
        `registers`; None if registers do not bound the number of blocks, or if more blocks save
        less than `gain` (None: the least of this kernel) or need far fewer registers."""
        part = _FEWEST
        if self.dots and not self.warpgroups and self._fitting(registers) > 1:
            part = _FEWEST_OF_DOTS
        return self._most_registers(registers, part, self._least if gain is None else gain)

    def _most_registers(self, registers: int, part: float, gain: float) -> int | None:
        """The largest number of registers, at least `part` of `registers`, with which so many more
        blocks are resident that they save `gain` of the time."""
        target, resident = self.machine.target, self._fitting(registers)
        for more in range(resident + 1, target.blocks_per_processor + 1):
            most = target.registers_per_processor // (more * self.warps * target.lanes)
            most = most // REGISTER_GRAIN * REGISTER_GRAIN
            if most < part * registers or (blocks := self._fitting(most)) <= resident:
                return None
            if self.machine.hidden * (1 / resident - 1 / blocks) >= gain:
                return most
        return None

    @property
    def _least(self) -> float:
        """The least part of the time that a limit saves."""
        return _LEAST_OF_DOTS if self.dots else _LEAST

    def _waiting(self, code: Assembled) -> float:
        loads = LoadsInFlight.of(code.cubin)
        words = self.warps * max(1, loads.together)
        return self.machine.waiting(self._resident(code.registers), words)

    def _has_more_loads(self, code: Assembled, than: Assembled) -> bool:
        """Whether a block of `code` has more loads in flight than one of `than`, and all resident
        blocks have almost as many or more."""
        together, before = (LoadsInFlight.of(x.cubin).together for x in (code, than))
        least = 1 if self._is_enough(than) else _LEAST_IN_FLIGHT
        keeps = self._in_flight(code) >= least * self._in_flight(than)
        return together > before and keeps

    def _is_enough(self, code: Assembled) -> bool:
        """Whether all resident blocks have so many loads in flight that more gain nothing."""
        return self.warps * self._in_flight(code) > _ENOUGH_IN_FLIGHT

    def _may_have_more(self, registers: int) -> bool:
        """Whether a thread may have more than `registers`."""
        target = self.machine.target
        most = target.available_registers(self.warps * target.lanes)
        return registers <= most - REGISTER_GRAIN

    def _in_flight(self, code: Assembled) -> int:
        """The registers that all loads in flight on a multiprocessor fill. They hide the latency of
        memory (Little's law)."""
        return self._resident(code.registers) * LoadsInFlight.of(code.cubin).together

    def _resident(self, registers: int) -> int:
        return 1 if self.alone else self._fitting(registers)

    def _fitting(self, registers: int) -> int:
        """The number of blocks that fit on a multiprocessor."""
        target = self.machine.target
        words = target.register_words(self.warps, registers)
        return target.resident_blocks(self.warps, words, self.shared)


def _waits(code: Assembled) -> bool:
    """Whether at most half of the loads of `code` are in flight together."""
    loads = LoadsInFlight.of(code.cubin)
    return 0 < 2 * loads.together <= loads.block


def _growth(code: Assembled, other: Assembled) -> float:
    """The part by which `other` is longer than `code`."""
    grown = code_bytes(other.cubin) - code_bytes(code.cubin) - _PADDING
    return max(0, grown) / code_bytes(code.cubin)


def with_directive(ptx: str, directive: str) -> str:
    """`ptx` with an additional performance-tuning directive for its only kernel (PTX ISA)."""
    return re.sub(r"(?m)^(\.reqntid .*)$", rf"\1\n{directive}", ptx, count=1)


def assembled_within(
    ptx: str, directive: str, assemble: Callable[[str], Assembled]
) -> Assembled | None:
    """The result of `assemble` of `ptx` with `directive`; None if ptxas rejects that: a `wgmma`
    needs all registers of its fragments at once."""
    try:
        return assemble(with_directive(ptx, directive))
    except CompileError as error:
        if error.code != "TIR0708":
            raise
        return None


@lru_cache(maxsize=2)
def live_halves(ptx: str) -> int:
    """The maximum number of 16-bit halves of registers that are live at a line of `ptx`. A value is
    live from its first line to its last one, and to the end of a loop that reads it before it
    defines it."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    halves: dict[str, int] = {}
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for number, line in enumerate(ptx.splitlines()):
        if "$L" in line:
            if label := _LABEL.match(line):
                labels[label[1]] = number
            branch = _BRANCH.search(line)
            if branch and branch[1] in labels:
                loops.append((labels[branch[1]], number))
        for name, kind in _NAME.findall(line):
            if name not in first:
                first[name], halves[name] = number, _HALVES[kind]
            last[name] = number
    for begin, end in sorted(loops, key=lambda loop: loop[1] - loop[0]):
        for name, at in last.items():
            if first[name] < begin <= at < end:
                last[name] = end
    change: Counter[int] = Counter()
    for name, count in halves.items():
        change[first[name]] += count
        change[last[name] + 1] -= count
    alive = most = 0
    for number in sorted(change):
        alive += change[number]
        most = max(most, alive)
    return most


def steps_addresses(ptx: str) -> bool:
    """Whether loops of `ptx` step more registers than one each, a counter: LLVM's strength
    reduction keeps others for addresses. Of 33 kernels of public libraries nine have no others, of
    which none has 1 % fewer registers alive as `UNREDUCED`."""
    labels = {label[1]: label.start() for label in _LABEL.finditer(ptx)}
    loops = sum(labels.get(b[1], len(ptx)) < b.start() for b in _BRANCH.finditer(ptx))
    return len(set(_STEP.findall(ptx))) > loops


def is_recurrence(function: Function, threads: int) -> bool:
    """Whether a loop of `function` loads and stores tiles, and carries other tiles that fill at
    least `_STATE` registers of each of `threads` threads. Such tiles are a state. A launch has one
    instance per sequence and head, which is often less than the number of multiprocessors, so a
    block often runs alone on a multiprocessor and only its own loads are in flight there."""
    return any(
        _state_registers(function, loop) >= _STATE * threads
        and all(_accesses_tiles(function, loop, kinds) for kinds in ((Load, AsyncCopy), (Store,)))
        for loop in loops(function).by_header.values()
    )


def _accesses_tiles(function: Function, loop: Loop, kinds: tuple[type[Op], ...]) -> bool:
    """Whether `loop` has an op of one of `kinds` with a tile of pointers."""
    ops = (op for label in loop.blocks for op in function.blocks[label].ops)
    return any(isinstance(op, kinds) and isinstance(op.inputs[0].type, Tile) for op in ops)


def _state_registers(function: Function, loop: Loop) -> int:
    """The registers, over all threads, of the tiles that `loop` carries."""
    return sum(registers(p.type) for p in function.blocks[loop.header].parameters)
