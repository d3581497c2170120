"""Vectorisation: whole tiles without their masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.analysis.alignment import Alignment
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import definitions, uses
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import contiguous_dim, is_access
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import And
from tileir.ops.control import Branch, CondBranch
from tileir.passes.cfg_edit import copy_op, fresh_label
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.types import Tile, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.transforms.scalarize import Scalarizer

_LONGEST = 64
"""Ops that are copied at most to have them with and without masks."""


@pass_("version-full-tiles")
def version_full_tiles(function: Function, *, threads: int = 0) -> PassResult:
    """Give loads and stores whose mask hides that they are contiguous a path without it.

    A mask `offsets < n` with an `n` of which nothing is known may end anywhere, so that no two
    neighbours can be accessed at once. All but the last tile are whole, though: where the mask
    holds in the last lane it holds in all. The ops from the first such access to the last are
    written twice, without masks for whole tiles and as they were for the last one; reductions,
    dots and the like in between are not copied. Masks that are known to be even (`n` a multiple
    of four, say) need no second path, and neither do tiles that give each of `threads` threads
    (0 where they are not chosen yet) one element.

        LANE    the mask in its last lane is scalar arithmetic that is available before the access
        RISE    along every dimension one side of each comparison rises by one or stays, and the
                other stays

    before:
        define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {
        entry:
          %i = make_range i32<128>
          %ns = splat i32<128> %n
          %m, _ = icmp (i1<128>, i1<128>) %i, %ns {predicate = slt}
          %xs = splat f32*<128> %x
          %p = getelementptr f32*<128> %xs, %i
          %ys = splat f32*<128> %y
          %q = getelementptr f32*<128> %ys, %i
          %v = load f32<128> %p, %m
          store %q, %v, %m
          ret
        }
    after:
        define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {
        entry:
          %i = make_range i32<128>
          %ns = splat i32<128> %n
          %m, _ = icmp (i1<128>, i1<128>) %i, %ns {predicate = slt}
          %xs = splat f32*<128> %x
          %p = getelementptr f32*<128> %xs, %i
          %ys = splat f32*<128> %y
          %q = getelementptr f32*<128> %ys, %i
          %whole, _ = icmp (i1, i1) 127, %n {predicate = slt}
          cond_br %whole, entry.whole, entry.part
        entry.whole:
          %v = load f32<128> %p
          store %q, %v
          br entry.rest
        entry.part:
          %v.1 = load f32<128> %p, %m
          store %q, %v.1, %m
          br entry.rest
        entry.rest:
          ret
        }
    """
    work = _Vectorizer(function, threads)
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks.update(work.block(label, block))
    if not work.count:
        return PassResult(function, tuple(work.remarks))
    return PassResult(function.with_blocks(blocks), tuple(work.remarks), {"stretches": work.count})


@attrs.frozen
class _Stretch:
    """Ops `start` to `stop` of a block, the ops that find out whether the tile is whole, and the
    masks that then hold everywhere."""

    start: int
    stop: int
    test: tuple[Op, ...]
    whole: Operand
    masks: frozenset[Operand]


@attrs.define
class _Vectorizer:
    """One run over a function."""

    function: Function
    threads: int
    count: int = 0
    remarks: list[Diagnostic] = attrs.field(factory=list)
    contiguity: AccessWidths = attrs.field(init=False)
    made: Mapping[Value, Op] = attrs.field(init=False)
    labels: set[str] = attrs.field(init=False)
    reduced: set[tuple[int, ...]] = attrs.field(init=False)
    """Shapes of tiles that are reduced, which fewer threads may hold."""

    def __attrs_post_init__(self) -> None:
        self.contiguity = AccessWidths(self.function)
        self.made = definitions(self.function)
        self.labels = set(self.function.blocks)
        reductions = (op for op in self.function.ops if op.mnemonic == "reduce")
        self.reduced = {shape_of(op.inputs[0].type) for op in reductions}

    def block(self, label: str, block: Block) -> Iterator[tuple[str, Block]]:
        """`block`, or the blocks it becomes, in order."""
        positions = {v: i for i, op in enumerate(block.ops) for v in op.results}
        parameters, done = block.parameters, 0
        for group in _groups(block, self._gains):
            found = self._stretch(block, group, positions)
            if found is not None:
                self.count += 1
                head = block.ops[done : found.start]
                *paths, (rest, following) = self._split(label, block, found)
                test = CondBranch(found.whole, *(Successor(name) for name, _ in paths))
                yield label, Block(label, parameters, (*head, *found.test, test))
                yield from paths
                label, parameters, done = rest, following.parameters, found.stop
        yield label, attrs.evolve(block, label=label, parameters=parameters, ops=block.ops[done:])

    def _gains(self, op: Op) -> bool:
        """Whether an access would be wider without its mask."""
        if not is_access(op) or op.mnemonic not in ("load", "store") or op.predicate is not None:
            return False
        if cast(Any, op).mask is None or cast(Any, op).volatile:
            return False
        shape = shape_of(op.inputs[0].type)
        if prod(shape) < 2 * self.threads and shape not in self.reduced:
            return False
        dim = contiguous_dim(op, self.contiguity)
        bare = op.evolve(**_without_mask(op))
        return self.contiguity.width(bare, dim) > self.contiguity.width(op, dim)

    def _stretch(
        self, block: Block, group: Sequence[int], positions: Mapping[Value, int]
    ) -> _Stretch | None:
        """The ops to copy for the accesses of `group`; None where no test can be made."""
        from tileir.backend.transforms.scalarize import Scalarizer

        tests: dict[Operand, Scalarizer] = {}
        wholes: dict[Operand, Operand] = {}
        kept: list[int] = []
        for index in group:
            mask = cast(Any, block.ops[index]).mask
            lanes = tests.setdefault(mask, Scalarizer(self.made))
            whole = wholes.get(mask) or self._last(lanes, mask)
            late = any(positions.get(v, -1) >= group[0] for v in lanes.leaves)
            if whole is None or late:
                self._refuse(block.ops[index])
                continue
            wholes[mask] = whole
            kept.append(index)
        if not kept:
            return None
        ops = [op for mask in wholes for op in tests[mask].ops]
        both = _all(list(wholes.values()), ops)
        return _Stretch(kept[0], kept[-1] + 1, tuple(ops), both, frozenset(wholes))

    def _refuse(self, op: Op) -> None:
        why = "its mask may end between any two elements, and no comparison before it tells where"
        self.remarks.append(remark("TIR0753", f"{op.mnemonic}: {why}", op.location))

    def _last(self, lanes: Scalarizer, mask: Operand) -> Operand | None:
        """The scalar that tells whether `mask` holds everywhere; None if no lane decides."""
        if not self._rises(mask):
            return None
        return lanes.at(mask, tuple(n - 1 for n in shape_of(mask.type)))

    def _rises(self, mask: Operand) -> bool:
        """Whether a mask holds everywhere if it does in its last lane."""
        op = self.made.get(mask) if isinstance(mask, Value) else None
        if op is None or op.predicate is not None:
            return not isinstance(mask, Value) or not isinstance(mask.type, Tile)
        if op.mnemonic in ("and", "broadcast", "expand_dims", "reshape", "splat"):
            return all(self._rises(v) for v in op.inputs)
        if op.mnemonic != "icmp" or op.results[0] is not mask:
            return False
        return self._ordered(op)

    def _ordered(self, op: Op) -> bool:
        """Whether a comparison is of something that rises with something that does not."""
        left, right = op.inputs
        relation: str = cast(Any, op).predicate_.value
        if relation in ("sgt", "sge", "ugt", "uge"):
            left, right = right, left
        elif relation not in ("slt", "sle", "ult", "ule"):
            return False
        bounds = ranges(self.function)
        if relation[0] == "u" and min(bounds.of(v)[0] for v in (left, right)) < 0:
            return False
        facts = self.contiguity.facts
        return _climbs(facts.of(left), shape_of(left.type)) and _stays(
            facts.of(right), shape_of(right.type)
        )

    def _split(self, label: str, block: Block, found: _Stretch) -> list[tuple[str, Block]]:
        """The path for whole tiles, the one for others, and an empty block where they meet, whose
        parameters are what the stretch defines for what follows."""
        inner = block.ops[found.start : found.stop]
        names = [self._label(f"{label.split('.')[0]}.{word}") for word in ("whole", "part", "rest")]
        readers, mine = uses(self.function), set(inner)
        out = tuple(v for op in inner for v in op.results if set(readers.get(v, ())) - mine)
        whole = _path(names[0], inner, out, names[2], found.masks)
        part = _path(names[1], inner, out, names[2], frozenset())
        return list(zip(names, (whole, part, Block(names[2], out, ())), strict=True))

    def _label(self, wanted: str) -> str:
        found = fresh_label(wanted, self.labels)
        self.labels.add(found)
        return found


def _path(
    label: str, ops: Sequence[Op], out: tuple[Value, ...], rest: str, masks: frozenset[Operand]
) -> Block:
    """Copies of `ops`, without those of `masks` on their accesses, and on to `rest`."""
    env: dict[Value, Operand] = {}
    copies: list[Op] = []
    for op in ops:
        bare = is_access(op) and getattr(op, "mask", None) in masks and op.predicate is None
        copies.append(copy_op(op.evolve(**_without_mask(op)) if bare else op, env))
    arguments = tuple(env[v] for v in out)
    return Block(label, (), (*copies, Branch(Successor(rest, arguments))))


def _without_mask(op: Op) -> dict[str, None]:
    return {"mask": None, "other": None} if hasattr(op, "other") else {"mask": None}


def _groups(block: Block, gains: Any) -> Iterator[list[int]]:
    """Accesses that gain, by stretches of ops that are cheap to have twice."""
    group: list[int] = []
    for index, op in enumerate(block.ops):
        if group and (not _copied(op) or index - group[0] >= _LONGEST):
            yield group
            group = []
        if gains(op):
            group.append(index)
    if group:
        yield group


def _copied(op: Op) -> bool:
    """Whether an op may stand between accesses that are written twice."""
    if op.is_terminator:
        return False
    if op.effects & (Effects.SYNC | Effects.TRAP):
        return bool(op.elementwise)
    computes_cheaply = op.effects is Effects.PURE and (op.moves_elements or not op.inputs)
    return op.elementwise or is_access(op) or computes_cheaply


def _climbs(facts: Alignment, shape: tuple[int, ...]) -> bool:
    """Whether elements rise by one or stay along every dimension."""
    pairs = zip(facts.contiguity, facts.constancy, shape or (1,), strict=True)
    return all(run % n == 0 or same % n == 0 for run, same, n in pairs)


def _stays(facts: Alignment, shape: tuple[int, ...]) -> bool:
    return all(same % n == 0 for same, n in zip(facts.constancy, shape or (1,), strict=True))


def _all(conditions: list[Operand], ops: list[Op]) -> Operand:
    """The conjunction of scalars, by `ops`."""
    found = conditions[0]
    for more in conditions[1:]:
        op = And(found, more)
        ops.append(op)
        found = op.result
    return found
