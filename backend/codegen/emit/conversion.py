"""The code of layout conversions: through shared memory
(`tileir.backend.shared_memory.conversion_staging`) and through the lanes of a warp
(`tileir.backend.layouts.warp_shuffles`, `tileir.backend.layouts.matrix_transposes`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tileir.backend.codegen.emit.packing import pack_elements, unpack_elements
from tileir.backend.codegen.lowering import Fragment, Lowering
from tileir.backend.layouts.matrix_transposes import TransposePlan
from tileir.backend.layouts.warp_shuffles import LANE_BITS, ShufflePlan, Swap, exchange
from tileir.backend.shared_memory.conversion_plan import conversion, repetitions, within_warps
from tileir.layout import Layout, Vector
from tileir.op import Op
from tileir.types import I32, Element, Tile

if TYPE_CHECKING:
    from tileir.backend.shared_memory.conversion_staging import (
        ConversionStaging,
        MatrixAccess,
        Side,
    )


def convert(
    lowering: Lowering, op: Op, fragment: Fragment, source: Tile, target: Layout
) -> Fragment:
    """Convert `fragment`, a tile of type `source`, to layout `target`."""
    plan = conversion(source, target)
    if isinstance(plan, tuple):
        return [fragment[r] for r in plan]
    if isinstance(plan, TransposePlan):
        if lowering.target.ldmatrix:
            return transpose_tile(
                lowering, fragment, source.element, plan, repetitions(source.layout)
            )
        shuffles = exchange(source.layout, target, 2)
        assert shuffles is not None  # transpositions replace shuffles
        plan = shuffles
    if isinstance(plan, ShufflePlan):
        return shuffle_tile(lowering, fragment, source.element, plan, repetitions(source.layout))
    near = within_warps(source, target)
    return pass_through(lowering, fragment, source.element, plan, lowering.scratch[op], near)


# Through shared memory ----------------------------------------------------------------------


def pass_through(
    lowering: Lowering, fragment: Fragment, element: Element, staged: ConversionStaging, base: int,
    near: bool = False,
) -> Fragment:  # fmt: skip
    """Convert a tile to the target's layout through shared memory from byte `base`. One owner of
    each element writes it. With `near`, data stays within a warp, and a warp barrier suffices."""
    thread = lowering.thread
    values: Fragment = [thread.constant(element, 0)] * _registers(staged.target)
    synchronize = thread.warp_barrier if near else thread.barrier
    for number in range(staged.iterations):
        if number:
            synchronize()
        store_staged(lowering, fragment, element, staged, base, number)
        synchronize()
        load_staged(lowering, values, element, staged, base, number)
    return values


def store_staged(
    lowering: Lowering, fragment: Fragment, element: Element, staged: ConversionStaging, base: int,
    number: int = 0,
) -> None:  # fmt: skip
    """Store the elements of iteration `number`."""
    side, thread = staged.source, lowering.thread
    if side.matrices is not None and lowering.target.stmatrix:
        store_rows(lowering, fragment, element, staged, side.matrices, base)
        return
    first = lowering.first_owner(side.layout)
    for group, at, condition in _accesses(lowering, staged, side, base, number):
        values, writes = [fragment[r] for r in group], lowering.conjunction(first, condition)
        if writes is None:
            thread.store_shared(element, at, values)
        else:
            # LLVM would move computations to a block after a branch, and keep their operands.
            thread.store_shared_if(writes, element, at, values)


def load_staged(
    lowering: Lowering, registers: Fragment, element: Element, staged: ConversionStaging, base: int,
    number: int = 0,
) -> None:  # fmt: skip
    """Load the elements of iteration `number` into `registers`. Padding loads the first element."""
    thread, matrices = lowering.thread, staged.target.matrices
    if matrices is not None and lowering.target.ldmatrix:
        load_rows(lowering, registers, element, staged, matrices, base)
        return
    for group, at, condition in _accesses(lowering, staged, staged.target, base, number):
        if condition is not None:
            at = thread.select(I32, condition, at, thread.integer(base))
        values = thread.load_shared(element, len(group), at)
        for register, value in zip(group, values, strict=True):
            if condition is not None and number:
                value = thread.select(element, condition, value, registers[register])
            registers[register] = value


def store_rows(
    lowering: Lowering, fragment: Fragment, element: Element, staged: ConversionStaging,
    matrices: MatrixAccess, base: int,
) -> None:  # fmt: skip
    """Store a fragment by `stmatrix`."""
    place = _Address(lowering, staged, matrices.rows)
    for start, registers in matrices.accesses:
        at, _ = place.of(start, base, 0)
        values = [fragment[r] for r in registers]
        lowering.thread.store_matrix(element, matrices.transposed, at, 0, values)


def load_rows(
    lowering: Lowering, registers: Fragment, element: Element, staged: ConversionStaging,
    matrices: MatrixAccess, base: int,
) -> None:  # fmt: skip
    """Load a fragment by `ldmatrix` into `registers`."""
    place, transposed = _Address(lowering, staged, matrices.rows), matrices.transposed
    for start, group in matrices.accesses:
        at, _ = place.of(start, base, 0)
        values = lowering.thread.load_matrix(element, matrices.count, transposed, at, 0)
        for register, value in zip(group, values, strict=True):
            registers[register] = value


def _registers(side: Side) -> int:
    return side.layout.size("register")


def _accesses(
    lowering: Lowering, staged: ConversionStaging, side: Side, base: int, number: int
) -> Iterator[tuple[tuple[int, ...], str, str | None]]:
    """Yield the registers, byte offset and condition (None: always) of every access of one
    iteration."""
    place = _Address(lowering, staged, side.layout)
    for group in side.groups:
        inside = lowering.inside(side.layout, staged.covered, group[0])
        if inside == "false":
            continue
        at, condition = place.of(group[0], base, number)
        if condition != "false":
            yield group, at, lowering.conjunction(inside, condition)


class _Address:
    """Byte offsets of the registers of one side. The part that depends on the thread is computed
    once."""

    def __init__(self, lowering: Lowering, staged: ConversionStaging, layout: Layout) -> None:
        self.lowering, self.staged, self.layout = lowering, staged, layout
        columns = _by_thread(layout, staged.low)
        self.mask, self.flipped = 0, dict[int, str]()
        for column in columns:
            self.mask |= column
        self.moving = exclusive_or(lowering, columns)
        self.boxes, self.most = self._boxes()

    def _boxes(self) -> tuple[str | None, int]:
        """The offset that lanes and warps contribute by moving between boxes, and its maximum."""
        thread, most = self.lowering.thread, 0
        columns = _by_thread(self.layout, self.staged.high)
        terms: list[str] = []
        for bit, column in enumerate(columns):
            if column:
                most += column
                one = thread.binary("lshr", I32, self._thread(), thread.integer(bit))
                one = thread.binary("and", I32, one, thread.integer(1))
                terms.append(thread.binary("mul", I32, one, thread.integer(column), "nsw nuw"))
        for axis, index in (("lane", thread.lane), ("warp", thread.warp)):
            for digit in self.layout.digits(axis):
                step = self.staged.high(digit.step)
                if step:
                    most += step * (digit.count - 1)
                    k = thread.binary("udiv", I32, index(), thread.integer(digit.weight))
                    k = thread.binary("urem", I32, k, thread.integer(digit.count))
                    terms.append(thread.binary("mul", I32, k, thread.integer(step), "nsw nuw"))
        return _add_all(self.lowering, terms), most

    def _thread(self) -> str:
        return self.lowering.thread.thread()

    def of(self, register: int, base: int, number: int) -> tuple[str, str | None]:
        """The byte offset of a register in iteration `number`, and the condition under which its
        element belongs to the iteration: None if always, `false` if never."""
        v = self.layout.registers[register]
        if self._has_overlap():
            return self._by_coordinates(register, base, number)
        fixed = self.staged.low(v)
        first = (fixed & ~self.mask) + self.staged.high(v)
        moving = self._flip_bits(fixed & self.mask)
        low, limit = self._iteration(number)
        total = _add_all(self.lowering, [x for x in (moving, self.boxes) if x is not None])
        return self._bounded_offset(total, first - low, self.mask + self.most, limit, base)

    def _iteration(self, number: int) -> tuple[int, int]:
        """The first offset of an iteration, and its size in bytes. With a single iteration, the
        size exceeds any offset."""
        limit = self.staged.bytes_at_once
        return (number * limit, limit) if self.staged.iterations > 1 else (0, 1 << 31)

    def _bounded_offset(
        self, total: str | None, fixed: int, most: int, limit: int, base: int
    ) -> tuple[str, str | None]:
        """The offset `total` + `fixed` from `base`, where `total` is at most `most`, and the
        condition that it is in [0, `limit`)."""
        thread = self.lowering.thread
        if total is None:
            most = 0
        if fixed + most < 0 or fixed >= limit:
            return "", "false"
        if total is None:
            return thread.integer(fixed + base), None
        shift = thread.integer(fixed + base)
        at = thread.binary("add", I32, total, shift, "nsw nuw" if fixed >= 0 else "")
        if fixed >= 0 and fixed + most < limit:
            return (at if fixed + base else total), None
        offset = thread.binary("add", I32, total, thread.integer(fixed))
        return at, thread.compare("ult", I32, offset, thread.integer(limit))

    def _flip_bits(self, bits: int) -> str | None:
        """The thread's part of the offset with `bits` flipped."""
        if self.moving is None or not bits:
            return self.moving
        if bits not in self.flipped:
            thread = self.lowering.thread
            flipped = thread.binary("xor", I32, self.moving, thread.integer(bits))
            self.flipped[bits] = flipped
        return self.flipped[bits]

    def _has_overlap(self) -> bool:
        """Whether registers and threads share bits of the box index. Their offsets cannot be added
        then."""
        for d, width in enumerate(self.staged.widths):
            seen = 0
            for axis in ("register", "lane", "warp"):
                for v in self.layout.atom(axis):
                    if seen & (v[d] >> width):
                        return True
                    seen |= v[d] >> width
        return False

    def _by_coordinates(self, register: int, base: int, number: int) -> tuple[str, str | None]:
        """The offset in rows, computed from coordinates that are not affine in registers, lanes and
        warps."""
        thread, staged = self.lowering.thread, self.staged
        terms: list[str] = []
        for d, stride in enumerate(staged.strides):
            at = self.lowering.coordinate(self.layout, register, d)
            terms.append(thread.binary("mul", I32, at, thread.integer(stride), "nsw nuw"))
        low, limit = self._iteration(number)
        return self._bounded_offset(_add_all(self.lowering, terms), -low, staged.bytes, limit, base)


def _by_thread(layout: Layout, part: Callable[[Vector], int]) -> list[int]:
    """The value of `part` for every bit of a thread's index: first the bits of the lane, then those
    of the warp."""
    lanes = [part(v) for v in layout.lane]
    return [*lanes, *[0] * (LANE_BITS - len(lanes)), *map(part, layout.warp)]


def exclusive_or(lowering: Lowering, columns: Sequence[int]) -> str | None:
    """The exclusive or of the columns whose bit is set in the thread's index, an i32; None for
    zero. Bits whose columns differ from them by the same shift are combined in one step."""
    thread, shifts = lowering.thread, dict[int, int]()
    for bit, column in enumerate(columns):
        for target in range(column.bit_length()):
            if column >> target & 1:
                shifts[target - bit] = shifts.get(target - bit, 0) | 1 << bit
    total: str | None = None
    for distance, mask in shifts.items():
        term = thread.binary("and", I32, thread.thread(), thread.integer(mask))
        if distance:
            name = "shl" if distance > 0 else "lshr"
            term = thread.binary(name, I32, term, thread.integer(abs(distance)))
        total = term if total is None else thread.binary("xor", I32, total, term)
    return total


def _add_all(lowering: Lowering, terms: list[str]) -> str | None:
    total: str | None = None
    for term in terms:
        if total is None:
            total = term
        else:
            total = lowering.thread.binary("add", I32, total, term, "nsw nuw")
    return total


# Between the lanes of a warp ----------------------------------------------------------------


def shuffle_tile(
    lowering: Lowering, fragment: Fragment, element: Element, plan: ShufflePlan, blocks: int
) -> Fragment:
    """The handles of a tile after `plan`. The plan is applied to each of `blocks` equal parts of
    the source's and the target's registers."""
    size, results = len(fragment) // blocks, list[str]()
    for block in range(blocks):
        part = fragment[block * size : (block + 1) * size]
        results += _shuffle_block(lowering, part, element, plan)
    return results


def transpose_tile(
    lowering: Lowering, fragment: Fragment, element: Element, plan: TransposePlan, blocks: int
) -> Fragment:
    """The handles of a tile after `plan`, which is applied to each of `blocks` equal parts."""
    size = len(fragment) // blocks
    results: Fragment = [""] * len(fragment)
    for start in range(0, len(fragment), size):
        for read, written in zip(plan.source, plan.target, strict=True):
            word = pack_elements(lowering, element, [fragment[start + r] for r in read])
            word = lowering.thread.transpose_matrix(word)
            values = unpack_elements(lowering, element, word, len(written))
            for register, value in zip(written, values, strict=True):
                results[start + register] = value
    return results


def _shuffle_block(
    lowering: Lowering, fragment: Fragment, element: Element, plan: ShufflePlan
) -> Fragment:
    kind = element if plan.packed == 1 else I32
    words = [
        pack_elements(lowering, element, [fragment[r] for r in group]) for group in plan.source
    ]
    words = _swap_registers(lowering, kind, words, plan.before)
    lanes = exclusive_or(lowering, plan.lanes) if plan.moves_lanes else None
    came = [
        _read(lowering, kind, words[permutation], lanes, mask, plan.moves_lanes)
        for permutation, mask in zip(plan.words, plan.masks, strict=True)
    ]
    came = _swap_registers(lowering, kind, came, plan.after)
    results: Fragment = [""] * (len(plan.target) * plan.packed)
    for group, word in zip(plan.target, came, strict=True):
        values = unpack_elements(lowering, element, word, len(group))
        for register, value in zip(group, values, strict=True):
            results[register] = value
    return results


def _read(
    lowering: Lowering, kind: Element, word: str, lanes: str | None, mask: int, moves: bool
) -> str:
    thread = lowering.thread
    if not moves:
        return thread.shuffle_xor(kind, word, mask) if mask else word
    lane = thread.integer(mask)
    if lanes is not None:
        lane = thread.binary("xor", I32, lanes, lane) if mask else lanes
    return thread.shuffle_index(kind, word, lane)


def _swap_registers(
    lowering: Lowering, kind: Element, words: list[str], swaps: Sequence[Swap]
) -> list[str]:
    """`words` after the register swaps `swaps`."""
    thread = lowering.thread
    for swap in swaps:
        odd = _parity(lowering, swap.lanes)
        pairs = [(words[i], words[i ^ swap.registers]) for i in range(len(words))]
        words = [thread.select(kind, odd, there, here) for here, there in pairs]
    return words


def _parity(lowering: Lowering, lanes: int) -> str:
    """Whether an odd number of the lane's bits in `lanes` is set."""
    thread = lowering.thread

    def make() -> str:
        bits = thread.binary("and", I32, thread.lane(), thread.integer(lanes))
        if lanes & (lanes - 1):
            count = thread.intrinsic("ctpop", I32, bits)
            bits = thread.binary("and", I32, count, thread.integer(1))
        return thread.compare("ne", I32, bits, thread.integer(0))

    return thread.once(f"parity {lanes}", make)
