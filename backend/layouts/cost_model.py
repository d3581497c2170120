"""The layout of every value that is not rematerialized, by a cost model.

Values that flow into one another element by element, through arithmetic, branches and loops, form a
component with one layout, so that no conversion is inside it. Where a component reaches an op with
another fixed layout (a load, a store, a dot, an op that goes through shared memory), the tile is
converted. That costs its bytes, times a hundred for every surrounding loop. A vector that a loop
loads in the layout of the component costs the bytes that all threads load. The layout with the
least cost is chosen. Conversions thus end up outside of loops, at the narrow side of a cast, before
a broadcast and after a reduction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions, uses
from tileir.backend.layouts.access_widths import is_access
from tileir.backend.layouts.anchors import (
    AnchorLayouts,
    DotLayoutMap,
    free_loads,
    layout_of_powers,
)
from tileir.backend.layouts.preferences import LayoutPreference
from tileir.backend.layouts.shape_ops import (
    HALVES,
    is_layout_only,
    layout_after,
    layout_before,
    operand_layout,
    tile_type_of,
    transposed_layout,
)
from tileir.effects import Effects
from tileir.field import Successor
from tileir.ir import Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.types import Buffer, Tile, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.layouts.carried_reductions import CarriedReductions

_LANES = 32
_STAGED = "gpu.local_load"
_COPY = "gpu.async_copy"

PRIVATE = frozenset({"gpu.private_load", "gpu.private_store"})
"""Ops on a buffer, the first operand, that has the layout of the tiles that pass through it."""


class ComponentLayouts:
    """One run over a function, whose `cheap` values have no layout of their own."""

    def __init__(
        self, function: Function, anchors: AnchorLayouts, dots: DotLayoutMap, cheap: set[Value]
    ) -> None:
        self.function, self.anchors, self.dots, self.cheap = function, anchors, dots, cheap
        self.definitions = definitions(function)
        self.parents: dict[Value, Value] = {}
        self.members: dict[Value, list[Value]] = {}
        """The values of each component of several, by its root."""
        self.votes: dict[Value, list[LayoutPreference]] = {}
        self.reductions: dict[Value, list[tuple[Op, int]]] = {}
        self.takers: dict[Value, list[Op]] = {}
        """Reshapes and similar ops that read a component."""
        self.further_reductions: dict[Value, list[tuple[Op, int]]] = {}
        """Reductions that read a component, and how often they run."""
        self.scans: dict[Value, list[Op]] = {}
        self.reloads: dict[Value, dict[Value, None]] = {}
        """Values of `loaded` that ops of a component read: they are loaded in its layout."""
        self.loaded: dict[Value, int] = {}
        """Cheap values that are loaded in loops, or computed from these, and how often they are."""
        self.fixed: dict[Value, Layout] = {}
        self.chosen: dict[Value, Layout | None] = {}
        self.free = frozenset[Op]()
        """Loads that take the requested layout."""

    def layouts_of(self, labels: Iterable[str], edges: Mapping[str, Sequence[Successor]]) -> dict[
        Value, Layout
    ]:  # fmt: skip
        """The layout of every tile that is not cheap."""
        around = loops(self.function)
        self.free = free_loads(self.anchors)
        order: list[Value] = []
        for label in labels:
            block = self.function.blocks[label]
            weight = around.frequency(label)
            for index, parameter in enumerate(block.parameters):
                if isinstance(parameter.type, Tile):
                    order.append(parameter)
                    for edge in edges.get(label, ()):
                        self._join(parameter, edge.arguments[index])
            for op in block.ops:
                order += [r for r in op.results if self._counts(r)]
                self._see(op, weight)
        for value in self.parents:
            self.members.setdefault(root := self._root(value), [root]).append(value)
        return {value: self.fixed.get(value) or self._layout(value) for value in order}

    # Components -------------------------------------------------------------------------------

    def _counts(self, operand: Operand) -> bool:
        return (
            isinstance(operand, Value)
            and isinstance(operand.type, (Tile, Buffer))
            and operand not in self.cheap
        )

    def _root(self, value: Value) -> Value:
        path: list[Value] = []
        while (parent := self.parents.get(value, value)) is not value:
            path.append(value)
            value = parent
        for seen in path:
            self.parents[seen] = value
        return value

    def _join(self, a: Value, b: Operand) -> None:
        if self._counts(b) and shape_of(tile_type_of(a.type)) == shape_of(tile_type_of(b.type)):
            mine, other = self._root(a), self._root(cast(Value, b))
            if mine is not other:
                self.parents[other] = mine
                for table in (
                    self.votes, self.reductions, self.takers, self.further_reductions, self.scans,
                ):  # fmt: skip
                    cast(Any, table).setdefault(mine, []).extend(cast(Any, table).pop(other, []))
                self.reloads.setdefault(mine, {}).update(self.reloads.pop(other, {}))

    def _source(self, source: Operand) -> tuple[Operand, list[Op]]:
        """The value of which `source` is a transpose, and the ops that transpose it, the last one
        first; `source` itself if there are none."""
        path = list[Op]()
        while not self._counts(source):
            trans = self.definitions.get(cast(Value, source))
            if trans is None or trans.mnemonic != "trans":
                break
            path.append(trans)
            source = trans.inputs[0]
        return source, path

    # Preferences ------------------------------------------------------------------------------

    def _see(self, op: Op, weight: int) -> None:
        """Join the values between which `op` passes elements into one component, and record its
        preferences."""
        loads = op.effects is Effects.READ or any(v in self.loaded for v in op.inputs)
        if weight > 1 and loads and op.results and op.results[0] in self.cheap:
            self.loaded[op.results[0]] = weight
        results = [r for r in op.results if self._counts(r)]
        anchor = self.anchors.of(op)
        if anchor is not None:
            self._see_access(op, anchor, results, weight)
            return
        if op.mnemonic in PRIVATE:
            for value in (*results, *op.inputs[2:]):
                if self._counts(value):
                    self._join(cast(Value, value), op.inputs[0])
            return
        if op.mnemonic == _STAGED and results:
            self._see_copied(op, weight)
        self._see_dot(op, results, weight)
        stored = self.anchors.of_columns(op)
        if stored is not None and self._counts(op.inputs[0]):
            self._vote(cast(Value, op.inputs[0]), stored, weight)
        if op.mnemonic == "reduce" and self._counts(op.inputs[0]):
            root = self._root(cast(Value, op.inputs[0]))
            self.further_reductions.setdefault(root, []).append((op, weight))
        if not results:
            return
        if op.elementwise or op.shares_layout:
            self._see_elementwise(op, results, weight)
        elif op.mnemonic == "reduce":
            for result in results:
                self.reductions.setdefault(self._root(result), []).append((op, weight))
        elif op.mnemonic == "reshape" or op.mnemonic in HALVES:
            self._see_reshaped(op, results, weight)

    def _see_elementwise(self, op: Op, results: list[Value], weight: int) -> None:
        """All operands and results of `op` are in one component."""
        for operand in (*results[1:], *op.inputs):
            self._join(results[0], operand)
        transposes = [path[0] for v in op.inputs if (path := self._source(v)[1])]
        if transposes:
            sources = self.reductions.setdefault(self._root(results[0]), [])
            sources.extend((trans, weight) for trans in transposes)
        reloaded = {v: None for v in op.inputs if v in self.loaded}
        if reloaded:
            self.reloads.setdefault(self._root(results[0]), {}).update(reloaded)
        if op.mnemonic == "scan":
            self.scans.setdefault(self._root(results[0]), []).append(op)

    def _see_reshaped(self, op: Op, results: list[Value], weight: int) -> None:
        """The operands of `op` are in one component, its results in another."""
        source = self._source(op.inputs[0])[0]
        if not self._counts(source):
            return
        for result in results[1:]:
            self._join(results[0], result)
        for operand in op.inputs[1:]:
            self._join(cast(Value, op.inputs[0]), operand)
        self.takers.setdefault(self._root(cast(Value, source)), []).append(op)
        self.reductions.setdefault(self._root(results[0]), []).append((op, weight))

    def _see_access(self, op: Op, anchor: Layout, results: list[Value], weight: int) -> None:
        if op.results and not results:
            return  # it is loaded in the layout that is needed
        if op in self.free:
            self._vote(results[0], anchor, 0)
            return
        for result in results:
            self.fixed[result] = anchor
        for operand in (*results, *op.inputs[1:]):
            if self._counts(operand):
                stored = op if not results and operand is op.inputs[1] else None
                self._vote(cast(Value, operand), anchor, weight, stored)

    def _see_copied(self, op: Op, weight: int) -> None:
        """Prefer the layout in which threads copy a tile that they then read from shared memory:
        each thread then reads only its own copies, and needs no barrier."""
        if self.dots.dots or self.dots.values:
            return
        from tileir.backend.layouts.copied_tiles import layouts_of_copies  # few kernels need it

        for value, own in layouts_of_copies(self.function, self.anchors, self.cheap, op):
            if self._counts(value):
                self._vote(value, own, weight)

    def _see_dot(self, op: Op, results: list[Value], weight: int) -> None:
        for result in results:
            requested = self.dots.values.get(result)
            if requested is not None and not op.elementwise:
                self.fixed[result] = requested
                self._vote(result, requested, weight)
        for index, operand in enumerate(op.inputs):
            requested = self.dots.operand(op, index)
            if requested is None:
                continue
            if op.mnemonic == "dot":
                self._vote_for_source(operand, requested, weight)
            elif self._counts(operand):
                self._vote(cast(Value, operand), requested, weight)

    def _vote_for_source(self, operand: Operand, layout: Layout, weight: int) -> None:
        """Prefer `layout` for an operand, or for the value that it is the transpose of."""
        source, path = self._source(operand)
        if self._counts(source):
            for trans in path:
                layout = operand_layout(trans, cast(Tile, trans.inputs[0].type), layout)
            self._vote(cast(Value, source), layout, weight)

    def _vote(self, value: Value, layout: Layout, weight: int, store: Op | None = None) -> None:
        tile = cast(Tile, value.type)
        cost = weight * tile.size * tile.element.bytes
        votes = self.votes.setdefault(self._root(value), [])
        votes.append(LayoutPreference(layout, cost, store, weight))

    # The choice -------------------------------------------------------------------------------

    def _layout(self, value: Value) -> Layout:
        """The layout of the component of `value`."""
        root = self._root(value)
        if root not in self.chosen:
            self.chosen[root] = None
            self.chosen[root] = self._cheapest(root, cast(Tile, tile_type_of(value.type)))
        return self.chosen[root] or self.anchors.default_layout(
            cast(Tile, tile_type_of(value.type))
        )

    def _cheapest(self, root: Value, tile: Tile) -> Layout:
        votes = [
            *self.votes.get(root, ()),
            *self._preferences_of_reductions(root),
            *self._preferences_of_users(root),
        ]
        votes += self._preferences_of_halves(root, votes)
        carried = self._reductions_in_loops(root)
        offered = [
            *(v.layout for v in votes),
            *(carried.layouts(tile.shape) if votes and carried else ()),
        ]
        candidates = dict.fromkeys(c for c in offered if self._can_be_scanned(root, c))
        if not candidates:
            if self._is_split_across_threads(root):
                return self.anchors.layout_of_rows(tile)
            requested = None
            if not self._is_staged(root) or self._is_informed(root, {root}):
                requested = self._requested_by_users(root) or self._demanded_of_words(root)
            requested = requested or self._layout_of_rows(root) or self.anchors.default_layout(tile)
            spread = self.anchors.of_functions(tile, self._members(root), requested)
            requested = spread or requested
            if self._can_be_scanned(root, requested):
                return requested
            return layout_of_powers(tile.shape, self.anchors.num_warps)
        delivered = self._repeated_in_warps(root, tile, candidates) or self._spread(root, tile)
        delivered = delivered or self._rows_of_lanes(root)
        if delivered is not None:
            return delivered
        cheapest = min(
            candidates,
            key=lambda c: (
                sum(v.cost_in(c, self.anchors) for v in votes)
                + self._cost_of_reloads(root, c)
                + (carried.cost(c, votes, self.anchors) if carried else 0)
            ),
        )
        return self._of_functions(root, tile, cheapest) or cheapest

    def _reductions_in_loops(self, root: Value) -> CarriedReductions | None:
        """The reductions of a component by loops; None if there are none."""
        reductions = self.further_reductions.get(root, ())
        if all(times == 1 for _, times in reductions):
            return None
        from tileir.backend.layouts.carried_reductions import CarriedReductions

        members, warps = self._members(root), self.anchors.num_warps
        return CarriedReductions.of(self.function, members, reductions, warps)

    def _repeated_in_warps(
        self, root: Value, tile: Tile, candidates: Iterable[Layout]
    ) -> Layout | None:
        """A layout in which every warp has all elements of a short tile that is reduced again, if
        this spares more exchanges between warps than it costs: a reduction through shared memory
        delivers its result in any layout. None for other tiles."""
        further = self.further_reductions.get(root)
        if not further or tile.size > _LANES or self.votes.get(root):
            return None
        from tileir.backend.layouts.reduction_plan import may_read_in, warps_along

        axes = [(cast(Any, op).axis, weight) for op, weight in further]
        exchanges = min(
            sum(weight for axis, weight in axes if warps_along(c, axis) > 1) for c in candidates
        )
        layout = self.anchors.default_layout(tile)
        if any(warps_along(layout, axis) > 1 for axis, _ in axes):
            return None
        for op, weight in self.reductions.get(root, ()):
            source = self._laid_out_source(op.inputs[0]) if op.mnemonic == "reduce" else None
            if source is None or not may_read_in(source, cast(Any, op).axis, layout):
                exchanges -= weight
        return layout if exchanges > 0 else None

    def _spread(self, root: Value, tile: Tile) -> Layout | None:
        """The default layout for the result of reductions in loops through shared memory, if a
        thread then combines the partial results of fewer elements, and no user needs the result
        next to the reduced elements. None for other tiles."""
        sources = self.reductions.get(root, ())
        if not sources or any(op.mnemonic != "reduce" or weight == 1 for op, weight in sources):
            return None
        layout = self.anchors.default_layout(tile)
        others = self.further_reductions.get(root) or self.takers.get(root) or self.scans.get(root)
        if others or any(vote.layout != layout for vote in self.votes.get(root, ())):
            return None
        readers = uses(self.function)
        if any(is_layout_only(op) for v in self._members(root) for op in readers.get(v, ())):
            return None
        from tileir.backend.layouts.reduction_plan import may_read_in

        for op, _ in sources:
            source, axis = self._laid_out_source(op.inputs[0]), cast(Any, op).axis
            if source is None or not may_read_in(source, axis, layout):
                return None
            if layout.size("register") >= source.slice(axis).size("register"):
                return None
        return layout

    def _rows_of_lanes(self, root: Value) -> Layout | None:
        """The layout in which the lanes that share rows divide the results of reductions, if these
        are only stored, or further computed element by element. None for other tiles."""
        sources, readers = self.reductions.get(root, ()), uses(self.function)
        others = self.further_reductions.get(root) or self.takers.get(root) or self.scans.get(root)
        if not sources or others or any(op.mnemonic != "reduce" for op, _ in sources):
            return None
        members = set(self._members(root))
        results = {result for op, _ in sources for result in op.results}
        further = [op for v in members for op in readers.get(v, ())]
        keep = all(op.elementwise or op.successors or is_access(op) for op in further)
        if not keep or not results.issubset(members):
            return None
        rows, votes = self._divided_rows(root), self.votes.get(root, ())
        return rows if all(rows and not v.cost_in(rows, self.anchors) for v in votes) else None

    def _divided_rows(self, root: Value) -> Layout | None:
        """The layout in which the lanes that share rows divide the results of all reductions of a
        component; None where they have several or none."""
        from tileir.backend.layouts.reduction_plan import divided_result

        layouts = set[Layout | None]()
        for op, _ in self.reductions.get(root, ()):
            source = self._laid_out_source(op.inputs[0]) if op.mnemonic == "reduce" else None
            layouts.add(None if source is None else divided_result(op, source))
        return layouts.pop() if len(layouts) == 1 else None

    def _of_functions(self, root: Value, tile: Tile, cheapest: Layout) -> Layout | None:
        """A layout for a component in which threads compute fewer functions than in the `cheapest`
        one to move, if that spares more than a conversion takes: lanes that share rows divide
        them, or each thread has other elements. None for others."""
        layout = self.anchors.of_functions(tile, self._members(root), cheapest)
        divided = self._divided_rows(root) if layout is not None else None
        if layout is None or divided is None or not self._can_be_scanned(root, divided):
            return layout
        return divided if divided.size("register") <= layout.size("register") else layout

    def _cost_of_reloads(self, root: Value, layout: Layout) -> int:
        """The bytes that all threads load for the operands that are loaded in `layout`."""
        values = self.reloads.get(root, ())
        if not values:
            return 0
        from tileir.backend.layouts.reloads import loaded_bytes

        return loaded_bytes(values, layout, shape_of(root.type), self.loaded, self.definitions)

    def _can_be_scanned(self, root: Value, layout: Layout) -> bool:
        """Whether all scans of a component can be done in `layout`."""
        scans = self.scans.get(root)
        if not scans:
            return True
        from tileir.backend.layouts.reduction_plan import scans_along  # few kernels need it

        return all(scans_along(layout, cast(Any, op).axis) for op in scans)

    def _preferences_of_reductions(self, root: Value) -> Iterable[LayoutPreference]:
        """Preferences derived from the operands of reductions, reshapes and transposes whose layout
        is already known."""
        for op, weight in self.reductions.get(root, ()):
            layout = self._after(op)
            result = cast(Tile, op.results[0].type)
            if layout is not None:
                yield LayoutPreference(layout, weight * result.size * result.element.bytes)

    def _preferences_of_halves(
        self, root: Value, votes: Sequence[LayoutPreference]
    ) -> Iterable[LayoutPreference]:
        """Preferences derived from joined halves that would be exchanged in the only layout that is
        voted for."""
        joined = [o for o in self.reductions.get(root, ()) if o[0].mnemonic != "reduce"]
        if not joined or len(requested := {vote.layout for vote in votes}) != 1:
            return
        from tileir.backend.layouts.joined_halves import JoinedHalves, values_of_halves

        of_halves = values_of_halves(self.function)
        halves = JoinedHalves(self.definitions, of_halves, self._layout_of_half)
        for op, weight in joined:
            result = cast(Tile, op.results[0].type)
            if (layout := halves.layout(op.results[0], *requested)) is not None:
                yield LayoutPreference(layout, weight * result.size * result.element.bytes)

    def _layout_of_half(self, half: Operand) -> Layout | None:
        """The layout of `half` if it does not follow users; None where it is decided already."""
        if not self._counts(half) or self._is_decided(half, ()):
            return None
        rows = self._layout_of_rows(self._root(cast(Value, half)))
        return rows or self.anchors.default_layout(cast(Tile, half.type))

    def _preferences_of_users(self, root: Value) -> Iterable[LayoutPreference]:
        """Preferences of the users of free loads, through layout-only ops."""
        if not self._is_free(root):
            return
        for value in self._members(root):
            demanded = self._layout_demanded_by_users(value)
            if demanded is not None:
                from tileir.backend.layouts.repeated_functions import repeats_functions

                warps, members = self.anchors.num_warps, self._members(root)
                is_free = self.anchors.multiplies or self._loads_as_well(root, demanded)
                if is_free and not repeats_functions(self.function, members, demanded, warps):
                    yield LayoutPreference(demanded, cast(Tile, root.type).size)
                return

    def _loads_as_well(self, root: Value, layout: Layout) -> bool:
        """Whether the free loads of a component cost no more in `layout` than in their own."""
        loads = (op for op in self.free if self._root(op.results[0]) is root)
        return all(self.anchors.loads_as_well(op, layout) for op in loads)

    def _demanded_of_words(self, root: Value) -> Layout | None:
        """The layout in which users need a component of words that are unpacked, or of other values
        that cost less to compute there than to move."""
        from tileir.backend.layouts.unpacked_words import most_registers

        values, is_reshaped = self._members(root), bool(self.takers.get(root))
        default = self.anchors.default_layout(cast(Tile, tile_type_of(root.type)))
        limit = most_registers(self.function, self.definitions, values, is_reshaped, default)
        demands = (self._layout_demanded_by_users(v) for v in values) if limit else ()
        demanded = next((d for d in demands if d is not None), None)
        return demanded if demanded is not None and demanded.size("register") <= limit else None

    def _is_staged(self, root: Value) -> bool:
        """Whether a component has elements that are read from shared memory."""
        defined = (self.definitions.get(v) for v in self._members(root))
        return any(op is not None and op.mnemonic == "gpu.local_load" for op in defined)

    def _is_informed(self, root: Value, seen: set[Value]) -> bool:
        """Whether values computed from a component reach an op or a component with a layout. Rows
        that are stored to shared memory have one, unless they are joined from halves: threads then
        store as many neighbours as they join."""
        waiting = [(value, False) for value in self._members(root)]
        while waiting:
            value, joined = waiting.pop()
            for op in uses(self.function).get(value, ()):
                in_rows = not joined and self.anchors.of_rows(op) is not None
                if in_rows or self.anchors.of_columns(op) is not None:
                    return True
                joins = joined or op.mnemonic in HALVES
                for result in op.results:
                    mine = self._root(result)
                    if result in self.cheap:
                        waiting.append((result, joins))
                    elif self._counts(result) and mine not in seen:
                        if result in self.fixed or self.votes.get(mine) or self.chosen.get(mine):
                            return True
                        seen.add(mine)
                        waiting += [(v, joins) for v in self._members(mine)]
        return False

    def _layout_of_rows(self, root: Value) -> Layout | None:
        """The layout in which a component is stored to rows of shared memory by few accesses."""
        for value in self._members(root):
            for op in uses(self.function).get(value, ()):
                if (layout := self.anchors.of_rows(op)) is not None:
                    return layout
        return None

    def _members(self, root: Value) -> Sequence[Value]:
        """The values of a component."""
        return self.members.get(root, (root,))

    def _layout_demanded_by_users(self, value: Value) -> Layout | None:
        """The layout in which the values computed from `value` are used."""
        for op in uses(self.function).get(value, ()):
            kind = cast(Tile, value.type)
            if op.successors:
                demand = self._layout_of_parameter(op, value)
            else:
                demand = self._demand(op, kind) if op.results else self._layout_of_copy(op, kind)
            if demand is not None:
                return demand
        return None

    def _layout_of_parameter(self, branch: Op, value: Value) -> Layout | None:
        """The layout of a parameter of a block to which `branch` passes `value`."""
        for edge in branch.successors:
            parameters = self.function.blocks[edge.label].parameters
            for argument, parameter in zip(edge.arguments, parameters, strict=True):
                if argument is value and self.chosen.get(self._root(parameter), value) is not None:
                    return self._layout(parameter)
        return None

    def _layout_of_copy(self, op: Op, operand: Tile) -> Layout | None:
        """The layout of the pointers and the mask of an asynchronous copy, or of a tile that is
        stored where its columns are contiguous."""
        if op.inputs and op.inputs[0].type is operand and (stored := self.anchors.of_columns(op)):
            return stored
        if op.mnemonic != _COPY or shape_of(op.inputs[0].type) != operand.shape:
            return None
        return self.anchors.of(op)

    def _demand(self, op: Op, operand: Tile) -> Layout | None:
        result = op.results[0]
        if is_access(op) and result in self.fixed:  # an address or a mask
            return self.fixed[result] if shape_of(result.type) == operand.shape else None
        if result in self.cheap:
            demanded = self._layout_demanded_by_users(result)
            moved = demanded is not None and is_layout_only(op)
            return operand_layout(op, operand, cast(Layout, demanded)) if moved else demanded
        follows = op.elementwise or op in self.free
        kept = follows or op.shares_layout or op.mnemonic == "reshape" or op.mnemonic in HALVES
        if not self._counts(result) or not kept:
            return None
        if (
            follows
            and self._is_free(result)
            and (demanded := self._layout_demanded_by_users(result)) is not None
        ):
            return demanded
        if result not in self.fixed and self.chosen.get(self._root(result), result) is None:
            return None
        assigned = self.fixed.get(result) or self._layout(result)
        if follows or op.shares_layout:
            return assigned
        moved = op.mnemonic not in HALVES and is_layout_only(op)
        return operand_layout(op, operand, assigned) if moved else layout_before(op, assigned)

    def _is_free(self, value: Value) -> bool:
        """Whether `value` has the layout of a free load."""
        root = self._root(value)
        return any(self._root(op.results[0]) is root for op in self.free)

    def _requested_by_users(self, root: Value) -> Layout | None:
        """The layout from which a reshape moves no element, for a component that may have any
        layout."""
        for op in self.takers.get(root, ()):
            result = op.results[0]
            waits = self.chosen.get(self._root(result), result) is None
            if not self._counts(result) or (waits and result not in self.fixed):
                continue
            assigned = self.fixed.get(result) or self._layout(result)
            if (layout := layout_before(op, assigned)) is not None:
                for trans in self._source(op.inputs[0])[1]:
                    layout = operand_layout(trans, cast(Tile, trans.inputs[0].type), layout)
                return layout
        return None

    def _is_split_across_threads(self, root: Value) -> bool:
        """Whether a component has the halves of a tile whose threads own only one of them each."""
        return any(
            op.mnemonic == "split" and self._is_decided(self._source(op.inputs[0])[0], ())
            for op, _ in self.reductions.get(root, ())
        )

    def _is_decided(self, source: Operand, seen: Sequence[Value]) -> bool:
        """Whether the layout of a value is not determined by its users alone."""
        if not self._counts(source):
            return source not in self.cheap
        value = cast(Value, source)
        root = self._root(value)
        if value in self.fixed or self.votes.get(root) or self.chosen.get(root) is not None:
            return True
        return root not in seen and any(
            op.mnemonic == "reduce"
            or self._is_decided(self._source(op.inputs[0])[0], (*seen, root))
            for op, _ in self.reductions.get(root, ())
        )

    def _follows_pending(self, source: Operand) -> bool:
        """Whether the layout of `source` depends only on components whose layout is being chosen:
        the chunks of a reduction are combined with the result of earlier chunks."""
        if not self._counts(source) or source in self.fixed:
            return False
        root = self._root(cast(Value, source))
        sources = [op.inputs[0] for op, _ in self.reductions.get(root, ())]
        if root in self.chosen or self.votes.get(root) or not sources:
            return False
        roots = [self._root(cast(Value, v)) for v in sources if self._counts(v)]
        pending = [root in self.chosen and self.chosen[root] is None for root in roots]
        return len(roots) == len(sources) and all(pending)

    def _after(self, op: Op) -> Layout | None:
        is_trans, source, path = op.mnemonic == "trans", op.inputs[0], list[Op]()
        if op.mnemonic != "reduce":
            source, path = self._source(op.results[0] if is_trans else source)
            if not self._is_decided(source, ()):
                return None  # it depends on this component
        if self._follows_pending(source):
            return None
        assigned = self._laid_out_source(source)
        if assigned is None:
            return None
        if op.mnemonic == "reduce":
            return assigned.slice(cast(Any, op).axis)
        for trans in reversed(path):
            assigned = transposed_layout(trans, assigned)
        return assigned if is_trans else layout_after(op, assigned)

    def _laid_out_source(self, source: Operand) -> Layout | None:
        """The layout of the operand of a reduction or a reshape; None while it is being chosen."""
        assigned = self.anchors.default_layout(cast(Tile, source.type))
        if not self._counts(source):
            return assigned
        value = cast(Value, source)
        if value not in self.fixed and self.chosen.get(self._root(value), assigned) is None:
            return None
        return self.fixed.get(value) or self._layout(value)
