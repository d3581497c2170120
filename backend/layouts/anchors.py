"""Layouts that memory accesses and dots require."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from tileir.analysis.loops import loops
from tileir.analysis.uses import arguments, definitions, uses
from tileir.backend.layouts.access_widths import (
    AccessWidths,
    AnchoredAccess,
    accesses,
    is_access,
    shapes_of_streams,
    stores_of_bytes,
)
from tileir.backend.stage import has_op
from tileir.backend.target import LINE_BYTES, VECTOR_BYTES
from tileir.effects import Effects
from tileir.ir import Function
from tileir.layout import Layout, Vector, layout
from tileir.layout_tilings import (
    blocked_layout,
    nested_layout,
    rows_per_warp_layout,
    square_layout,
)
from tileir.op import Op
from tileir.types import Pointer, Scalar, Tile, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.layouts.dot_layouts import DotLayouts
    from tileir.backend.layouts.hierarchical_tiling import Nesting

_Accessed: TypeAlias = tuple[Vector, Vector]
"""The shape of a tile of pointers, and its dimensions, fastest first."""

_LANES = 32
_REPEATED_BYTES = 2 * VECTOR_BYTES
"""The most bytes per thread and access that every warp of a block loads redundantly to save a
barrier."""
_SCANNED_BY_A_THREAD = (16, 8, 4, 2, 1)
"""Numbers of neighbours along the axis of a scan that a thread may own, the first one that costs
least."""
_COMBINED = 8
"""The estimated number of instructions of a function that combines elements of a scan, for two
operands of the scan."""
_ROWS_OF_A_WARP = 16
"""Rows that a warp of a warpgroup multiplies."""
_WORD = 4
"""Bytes of a register."""
_MANY_VECTORS = 4
"""Vectors of a thread that are worth a conversion."""
_BYTES_TOGETHER = VECTOR_BYTES // 2
"""Neighbours along which a thread does not load bytes, but stores them. Threads that owned a whole
access would not exchange them, and each lane would store to another line."""
_PER_LINE = 4
"""Instructions that a multiprocessor issues while it accesses a line in its first cache."""
_ATOMIC = "atomic_rmw"
_STAGED = "gpu.local_load"
_STORED = "gpu.local_store"
_COPIED = "gpu.async_copy"
_REMOTE = "gpu.cluster_load"
_SCATTER = "gpu.cluster_scatter"


@attrs.frozen(eq=False, repr=False)
class DotLayoutMap:
    """The layouts that the dots of a function require: those of each dot, and of values that
    accumulate."""

    dots: Mapping[Op, DotLayouts]
    in_registers: Mapping[Op, bool]
    """Whether a dot takes A and B in registers."""
    values: Mapping[Value, Layout]
    grouped: Mapping[tuple[Op, int], Layout] = attrs.field(factory=dict)
    """The operand layouts of wgmma, by operand number."""

    def operand(self, op: Op, index: int) -> Layout | None:
        """The layout that a dot requires of its operand `index`; None for other ops, and for
        operands that the dot reads from shared memory."""
        layouts = self.dots.get(op)
        if (op, index) in self.grouped:
            return self.grouped[op, index]
        if layouts is None or index > 2 or (index < 2 and not self.in_registers[op]):
            return None
        return (layouts.a, layouts.b, layouts.c)[index]


class AnchorLayouts:
    """The layouts that the accesses of one function require.

    Accesses of one shape that run in the same direction share a layout, so that values pass from
    loads to stores without conversions. The layout is as wide as the widest access can use. It is
    narrower if the width would scatter the accesses of other instructions, whose addresses are not
    aligned to it, or which write larger elements. A store of the result of dots, which is converted
    anyway, is as wide as an instruction.
    """

    def __init__(self, function: Function, contiguity: AccessWidths, num_warps: int) -> None:
        self.function, self.contiguity, self.num_warps = function, contiguity, num_warps
        self._widths: dict[_Accessed, int] = {}
        self._largest: dict[Vector, int] = {}
        self._orders: dict[Vector, dict[Vector, int]] = {}
        self._cached_layouts: dict[tuple[Vector, Vector, int, int], Layout] = {}
        self._requests: dict[Op, tuple[Vector, Vector, int]] = {}
        self._owned = set[_Accessed]()
        """Shapes and orders of dimensions of which a thread owns the last one."""
        self._results = frozenset[Op]()
        """The stores and atomics of results of dots that are narrower than other accesses."""
        self._bytes = frozenset[Op]()
        """Loads of bytes that are wider than other accesses of their tiles."""
        self.updates = frozenset[Op]()
        """Accesses of addresses that others access, too, of functions with dots."""
        self._repeated = frozenset[Op]()
        """Accesses in loops, and of addresses that are read and written, of functions with dots."""
        self._multiplied = frozenset[Vector]()
        """Shapes of which each warp owns consecutive rows."""
        self.multiplies = has_op(function, "dot", "dot_scaled", "gpu.wgmma")
        self._nesting: Nesting | None = None
        if function.attributes.keys() & {"micro", "nano"} and not self.multiplies:
            from tileir.backend.layouts.hierarchical_tiling import nesting_of

            self._nesting = nesting_of(function)
        self._reduced: dict[Vector, set[int]] = {}
        """The axes along which tiles of each shape are reduced."""
        for op in function.ops:
            if op.mnemonic == "reduce":
                axes = self._reduced.setdefault(shape_of(op.inputs[0].type), set())
                axes.add(cast(Any, op).axis)
        self._streamed = shapes_of_streams(function) if self._reduced else frozenset[Vector]()
        """Shapes of tiles that are reduced after a loop that accesses them."""
        self._scanned: dict[Vector, int] = {
            shape_of(op.inputs[0].type): cast(Any, op).axis
            for op in function.ops
            if op.mnemonic == "scan"
        }
        """The axis along which a tile of each shape is scanned."""
        self._rank()

    def _rank(self) -> None:
        """Compare the accesses with each other, and set the widths of their layouts."""
        for op in accesses(self.function):
            shape, size = shape_of(op.inputs[0].type), _element_bytes(op.inputs[0].type)
            self._largest[shape] = max(size, self._largest.get(shape, 1))
        requests = [self._request(op) for op in accesses(self.function)]
        requests += [_wide(op.results[0].type) for op in _slices(self.function)]
        for shape, order, width in requests:
            orders = self._orders.setdefault(shape, {})
            orders[order] = orders.get(order, 0) + width
            self._widths[shape, order] = max(self._widths.get((shape, order), 1), width)
        if self.multiplies:
            self.updates = frozenset(self._updates())
            self._repeated = self.updates.union(self._accesses_in_loops())
            self._results = self._results_of_dots()
        self._narrow_scattered()
        self._widen_scanned()
        if self.multiplies:
            self._results = self._results_of_dots()
            self._multiplied = frozenset(self._shapes_of_results())
        else:
            self._bytes = frozenset(self._loads_of_bytes())

    def _results_of_dots(self) -> frozenset[Op]:
        return frozenset(op for op in accesses(self.function) if self._is_result(op))

    def _loads_of_bytes(self) -> Iterator[Op]:
        """Loads of bytes, outside of loops, that get a layout of their own: a thread loads four or
        more vectors, and would load four times as many words in the layout of the other accesses.
        The bytes are converted before they become larger elements."""
        around = loops(self.function)
        for label, block in self.function.blocks.items():
            for op in filter(is_access, () if around.depth(label) else block.ops):
                shape, order, width = self._request(op)
                is_wide = width == VECTOR_BYTES and self._widths[shape, order] <= _WORD
                vectors = prod(shape) // (VECTOR_BYTES * _LANES * self.num_warps)
                is_read = op.mnemonic == "load" and shape not in self._scanned
                if is_wide and is_read and vectors >= _MANY_VECTORS:
                    yield op

    def _accesses_in_loops(self) -> Iterator[Op]:
        around = loops(self.function)
        for label, block in self.function.blocks.items():
            if around.depth(label):
                yield from filter(is_access, block.ops)

    def _updates(self) -> Iterator[Op]:
        """Accesses of one address: a load, and a store of its value plus the result of a dot."""
        by_address: dict[Operand, list[Op]] = {}
        for op in accesses(self.function):
            by_address.setdefault(op.inputs[0], []).append(op)
        for ops in by_address.values():
            if len(ops) > 1:
                yield from ops

    def _shapes_of_results(self) -> Iterator[Vector]:
        """The shapes of tiles that loops load, of which warpgroups compute one: 16 rows by each
        warp. A warp then loads its own rows, and converts them without the others. What is stored
        in shared memory, such as an operand, needs no conversion."""
        loaded = {
            shape_of(op.inputs[0].type)
            for op in self._accesses_in_loops()
            if op.mnemonic == "load" and not self._is_staged(op.results[0])
        }
        for op in self.function.ops if loaded else ():
            shape = shape_of(op.results[0].type) if op.mnemonic == "gpu.wgmma" else None
            if shape in loaded and shape and shape[0] == _ROWS_OF_A_WARP * self.num_warps:
                yield shape

    def _is_staged(self, value: Value) -> bool:
        """Whether values computed from `value` element by element are stored in shared memory."""
        waiting, seen = [value], set[Value]()
        while waiting:
            source = waiting.pop()
            for op in () if source in seen else uses(self.function).get(source, ()):
                if op.mnemonic == _STORED:
                    return True
                if op.elementwise:
                    waiting += op.results
            seen.add(source)
        return False

    def _narrow_scattered(self) -> None:
        """Choose a narrower width where a wide layout scatters accesses.

        An access may be narrower than the layout because of its alignment. A write may be narrower
        because its elements are larger than those of another access, or are not known to be
        neighbours. Elements a stride apart are in fewer lines if lanes own neighbours. The width is
        then the one at which the accesses of that shape and order, and scans in that direction,
        cost least; the smallest of several. Results of dots do not count.
        Shapes that differ by extents of 1 have one width: rows are computed with vectors.
        """
        around = loops(self.function)
        groups: dict[_Accessed, list[tuple[_Accessed, AnchoredAccess]]] = {}
        for label, block in self.function.blocks.items():
            for op in filter(is_access, block.ops):
                shape, order, _ = self._request(op)
                if op in self._results:
                    continue  # such an access has its own layout
                has_runs = self.contiguity.runs(op.inputs[0])[order[0]] > 1
                if has_runs or self._is_near(op, order[0]) or self._is_far(op, order[0]):
                    access = self._access(op, order[0], around.frequency(label))
                    key = _without_ones(shape, order)
                    groups.setdefault(key, []).append(((shape, order), access))
        for group in groups.values():
            tiles = dict.fromkeys(tile for tile, _ in group)
            widest = max(self._widths[tile] for tile in tiles)
            if any(access.scatters(widest) for _, access in group):
                width = min(
                    (1 << k for k in range(widest.bit_length())),
                    key=lambda w: (
                        sum(access.cost(w) for _, access in group)
                        + sum(self._exchange(shape, order[0], w) for shape, order in tiles)
                    ),
                )
                self._widths.update((tile, min(width, self._widths[tile])) for tile in tiles)

    def _exchange(self, shape: Vector, dim: int, owned: int) -> float:
        """The cost per element of scans along `dim` of tiles of `shape`, in the unit of accesses,
        if threads own `owned` neighbours: lanes exchange a value for each run of neighbours and
        each bit of their number."""
        if self._scanned.get(shape) != dim:
            return 0.0
        around, cost = loops(self.function), 0.0
        for label, block in self.function.blocks.items():
            for op in block.ops:
                if op.mnemonic == "scan" and shape_of(op.inputs[0].type) == shape:
                    inputs = len(op.inputs)
                    is_function = isinstance(cast(Any, op).combiner, str)
                    combined = _COMBINED * ((inputs + 1) // 2) if is_function else 1
                    cost += around.frequency(label) * (combined + 2 * inputs)
        lanes = min(_LANES, shape[dim] // owned)
        return cost * max(0, lanes.bit_length() - 1) / owned / _PER_LINE

    def _widen_scanned(self) -> None:
        """Let threads own neighbours along the axis of a scan, which they scan without exchange, if
        no access of the tile has contiguous neighbours along that axis: as many as cost least, and
        those in one sector. Neighbours in different lines cost the same whichever thread accesses
        them."""
        around = loops(self.function)
        groups: dict[_Accessed, list[tuple[Op, int]]] = {}
        for label, block in self.function.blocks.items() if self._scanned else ():
            for op in filter(is_access, block.ops):
                shape, order, _ = self._request(op)
                if self._scanned.get(shape) == order[0]:
                    groups.setdefault((shape, order), []).append((op, around.frequency(label)))
        for (shape, order), group in groups.items():
            if not all(self._is_far(op, order[0]) for op, _ in group):
                continue
            near = [a for a in (self._access(op, order[0], n) for op, n in group) if a.is_near]
            least = min(max((a.sector_elements for a in near), default=1), _SCANNED_BY_A_THREAD[0])
            owned = min(
                (n for n in _SCANNED_BY_A_THREAD if n >= least),
                key=lambda n: sum(a.cost(n) for a in near) + self._exchange(shape, order[0], n),
            )
            self._widths[shape, order] = max(self._widths[shape, order], owned)

    def _is_near(self, op: Op, dim: int) -> bool:
        """Whether `op` stores at indices that are computed from other values, such as the number of
        elements before one.

        Neighbours along `dim` then mostly share sectors. If the indices are scanned, fewer
        neighbours per thread make the scan more expensive. Atomic accesses of neighbours that share
        a sector wait for each other.
        """
        # few accesses need it
        from tileir.backend.layouts.stride_classes import StrideClass, distances

        is_scanned = self._scanned.get(shape_of(op.inputs[0].type)) == dim
        if is_scanned or op.mnemonic != "store":
            return False
        away = distances(self.function, op.inputs[0])[dim]
        return away in (StrideClass.COMPUTED, StrideClass.LOOKED_UP)

    def _is_far(self, op: Op, dim: int) -> bool:
        """Whether neighbours along `dim` are a stride apart."""
        pointer = op.inputs[0]
        if self.contiguity.runs(pointer)[dim] > 1:
            return False
        # few accesses need it
        from tileir.backend.layouts.stride_classes import StrideClass, distances

        return distances(self.function, pointer)[dim] is StrideClass.STRIDED

    def _access(self, op: Op, dim: int, frequency: int) -> AnchoredAccess:
        type = op.inputs[0].type
        width = min(self.contiguity.aligned_width(op, dim), _per_access(type))
        write = bool(op.effects & Effects.WRITE)
        # Next to dots, wide loads of operands save more than wide stores, which run once.
        sectors = write and not self.multiplies
        adds = op.mnemonic == _ATOMIC and cast(Any, op).op.value == "fadd"
        size, stride = _element_bytes(type), cast("int | None", 0)
        if self._is_far(op, dim):
            from tileir.backend.layouts.stride_classes import bytes_between  # few accesses need it

            stride = bytes_between(self.function, op.inputs[0], dim)
        return AnchoredAccess(width, size, write, frequency, sectors, adds, stride)

    def _is_result(self, op: Op) -> bool:
        """Whether `op` stores, or adds to memory, values that are computed element by element from
        dots and no loads, with fewer elements per instruction than threads would own. The dots may
        be those of a loop before it, or of earlier iterations: all lanes then write neighbours,
        whatever loads of the same shape need.
        """
        if not op.effects & Effects.WRITE:
            return False
        shape, order, width = self._request(op)
        if width >= self._widths.get((shape, order), 1):
            return False
        passed = arguments(self.function)
        origin, waiting, seen = definitions(self.function), [op.inputs[1]], set[Operand]()
        multiplied = False
        while waiting:
            value = waiting.pop()
            if not isinstance(value, Value) or value in seen or shape_of(value.type) != shape:
                continue
            seen.add(value)
            source = origin.get(value)
            if source is None:
                waiting += passed.get(value, ())
                continue
            if is_access(source):
                return False
            multiplied = multiplied or source.multiplies_matrices
            if source.elementwise:
                waiting += source.inputs
        return multiplied

    def of(self, op: Op) -> Layout | None:
        """The layout of an access to a tile of pointers; None for other ops."""
        if not is_access(op):
            return None
        shape, order, width = self._request(op)
        if op.mnemonic == _COPIED:
            # Fewer bytes would be copied through registers, which waits for them.
            size = _element_bytes(op.inputs[0].type)
            return self._layout(shape, order, least=min(width, max(1, _WORD // size)))
        return self._layout(shape, order, width if op in self._results | self._bytes else 0)

    def of_columns(self, op: Op) -> Layout | None:
        """The layout in which a tile is stored to shared memory by few accesses, where its columns
        are contiguous there: bytes whose rows are contiguous before are transposed in registers,
        4 x 4 at a time. None for other ops."""
        if op.mnemonic != _STORED:
            return None
        value, buffer = op.inputs[0], definitions(self.function).get(cast(Value, op.inputs[1]))
        if not isinstance(value.type, Tile) or getattr(buffer, "fast", 1) != 0:
            return None
        shape, order, width = _wide(value.type, (0, 1))
        if self._is_in_rows(value):
            is_whole = shape[0] % 16 == 0 and shape[1] % 32 == 0
            if is_whole and value.type.element.bits == 8:
                return square_layout(shape, 4, self.num_warps)
            return None
        return self._layout(shape, order, 0 if (shape, order) in self._widths else width)

    def of_rows(self, op: Op) -> Layout | None:
        """The layout in which a tile is stored to shared memory by few accesses, where its rows are
        contiguous there; None for other ops."""
        if not self.stores_rows(op, to_parameters=False):
            return None
        shape, order, width = _wide(op.inputs[0].type)
        return self._layout(shape, order, width)

    def stores_rows(self, op: Op, *, to_parameters: bool = True) -> bool:
        """Whether `op` stores a matrix to shared memory where its rows are contiguous. In buffers
        that a role gets as parameters they are; stores to these count if `to_parameters`."""
        if op.mnemonic != _STORED or len(shape_of(op.inputs[0].type)) != 2:
            return False
        buffer = definitions(self.function).get(cast(Value, op.inputs[1]))
        return getattr(buffer, "fast", int(to_parameters)) == 1

    def _is_in_rows(self, value: Operand) -> bool:
        """Whether `value` is computed, element by element, of what is read from shared memory where
        its rows are contiguous."""
        origin, waiting, seen = definitions(self.function), [value], set[Operand]()
        while waiting:
            source = waiting.pop()
            op = origin.get(source) if isinstance(source, Value) else None
            if op is None or source in seen:
                continue
            seen.add(source)
            if op.mnemonic == _STAGED:
                buffer = origin.get(cast(Value, op.inputs[0]))
                if getattr(buffer, "fast", 0) == 1:
                    return True
            elif op.elementwise:
                waiting += [v for v in op.inputs if shape_of(v.type) == shape_of(source.type)]
        return False

    def default_layout(self, tile: Tile) -> Layout:
        """The layout of a tile of this shape for which no op requests one."""
        orders = self._orders.get(tile.shape)
        order = max(orders, key=lambda o: orders[o]) if orders else row_major(len(tile.shape))
        return self._layout(tile.shape, order)

    def of_functions(self, tile: Tile, values: Iterable[Value], requested: Layout) -> Layout | None:
        """The default layout, in which each thread has other elements, for `values` like `tile`
        that are computed from one another element by element, if the `requested` layout, such as
        that of an operand of a dot or of the result of a reduction, costs more divisions and
        mathematical functions than a conversion takes. None for others."""
        layout = self.default_layout(tile)
        repeated = requested.size("register") - layout.size("register")
        if repeated <= 0:
            return None
        from tileir.backend.layouts.repeated_functions import takes_long  # few kernels need it

        return layout if takes_long(self.function, values, repeated) else None

    def layout_of_rows(self, tile: Tile) -> Layout:
        """A layout in which threads own whole rows, if they own enough elements; else the default
        one. A further split of the rows then moves no element."""
        row = tile.shape[-1]
        if row & (row - 1) or prod(tile.shape) < row * _LANES * self.num_warps:
            return self.default_layout(tile)
        return blocked_layout(tile.shape, row_major(len(tile.shape)), row, self.num_warps)

    def serves(self, op: Op, layout: Layout) -> bool:
        """Whether an access from `layout` is as good as from the op's own layout: it is as wide in
        the same direction, or the tile is too small for it to matter.

        Next to dots, a store that writes less than a word at once uses its own layout. If threads
        owned neighbours, lanes would leave gaps, so that an instruction would access many lines,
        and several instructions would write each sector.
        """
        shape, order, width = self._request(op)
        if prod(shape) <= _LANES * self.num_warps:
            return True
        own, ordered = cast(Layout, self.of(op)), neighbours_first(layout, order[0])
        run = vector_run(ordered, order[0])
        mixed = ordered is not layout or shape in {shape_of(x.inputs[0].type) for x in self._bytes}
        if mixed and run * _element_bytes(op.inputs[0].type) > VECTOR_BYTES:
            return False  # lanes would leave gaps, and several instructions write each sector
        narrow = width * _element_bytes(op.inputs[0].type) < _WORD
        scatters = op in self._repeated or (self.multiplies and bool(op.effects & Effects.WRITE))
        if narrow and scatters and width == vector_run(own, order[0]) < run:
            return False
        return layout.extents == own.extents and width <= run

    def widens(self, op: Op, layout: Layout) -> bool:
        """Whether an access from `layout` is wider than from the op's own layout."""
        _, order, width = self._request(op)
        own, other = (vector_run(x, order[0]) for x in (cast(Layout, self.of(op)), layout))
        return min(width, other) > own

    def width(self, op: Op) -> int:
        """The number of elements that a thread reads at once."""
        return self._request(op)[2]

    def loads_as_well(self, op: Op, layout: Layout) -> bool:
        """Whether a load in `layout` takes no more instructions of a thread than in the op's own
        layout, and a warp loads as many neighbours at once."""
        _, (fast, *_), width = self._request(op)

        def instructions(it: Layout) -> int:
            run = vector_run(neighbours_first(it, fast), fast)
            return it.size("register") // min(width, run)

        def neighbours(it: Layout) -> int:
            return sum(1 for vector in (*it.register, *it.lane) if vector[fast])

        own = cast(Layout, self.of(op))
        fewer = instructions(layout) <= instructions(own)
        return fewer and neighbours(layout) >= neighbours(own)

    def _layout(self, shape: Vector, order: Vector, own: int = 0, least: int = 1) -> Layout:
        """The layout with the width of the accesses, or of width `own` if that is not 0, as long as
        every thread still owns an element, and of width `least` otherwise.

        A tile that is reduced may be owned by one warp, all of whose lanes own an element, if that
        warp accesses its elements in few instructions, and not in a loop before the reduction. The
        reduction then needs no barrier; the other warps replicate the elements. Threads own
        neighbours along the axis of a scan, which they scan before they exchange anything.
        """
        key = shape, order, own, least
        if key not in self._cached_layouts:
            width = own or self._widths.get((shape, order), 1)
            self._cached_layouts[key] = self._tiling(shape, order, width, least)
        return self._cached_layouts[key]

    def _tiling(self, shape: Vector, order: Vector, width: int, least: int) -> Layout:
        nesting = self._nesting
        if nesting is not None and nesting.fits(shape):
            return nested_layout(shape, order, nesting.nano, nesting.lanes, self.num_warps)
        axes = self._reduced.get(shape, set())
        is_reduced = any(shape[axis] > 1 for axis in axes)
        while width > least and prod(shape) // width < _LANES * self.num_warps:
            owners = prod(shape) // width
            one_warp = is_reduced and owners <= _LANES < 2 * owners and shape not in self._streamed
            if one_warp and width * self._largest.get(shape, 1) <= _REPEATED_BYTES:
                break
            width //= 2
        within, reduced, most = self._scanned.get(shape), None, None
        if within is None and shape in self._multiplied:
            return rows_per_warp_layout(shape, order, width, self.num_warps)
        is_free = within is None and not self.multiplies
        if is_free and len(axes) == 1 and self._has_whole_lines(shape, order[0]):
            (axis,) = axes
            within = axis if self._loads_vectors(shape[axis]) else None
            reduced = None if self._is_written(shape) else axis
        if is_free and within is None:
            within, most = self._written_along(shape, order[0]), _BYTES_TOGETHER
        if (shape, order) in self._owned:
            reduced = order[-1]
        return blocked_layout(
            shape, order, width, self.num_warps, within=within, least=least, reduced=reduced,
            most=most,
        )  # fmt: skip

    def _is_written(self, shape: Vector) -> bool:
        types = [op.inputs[0].type for op in accesses(self.function) if op.effects & Effects.WRITE]
        return any(shape_of(kind) == shape for kind in types)

    def _written_along(self, shape: Vector, fast: int) -> int | None:
        """The dimension, another than `fast`, along which bytes of a tile of `shape` are stored to
        neighbouring addresses."""
        stores = (self._request(op) for op in stores_of_bytes(self.function, shape))
        return next((order[0] for _, order, n in stores if order[0] != fast and n > 1), None)

    def _has_whole_lines(self, shape: Vector, fast: int) -> bool:
        """Whether neighbours along `fast` fill whole cache lines in each access of a tile of
        `shape`. Lanes may then access lines that are far apart."""
        types = [op.inputs[0].type for op in accesses(self.function)]
        sizes = [_element_bytes(kind) for kind in types if shape_of(kind) == shape]
        return bool(sizes) and shape[fast] * min(sizes) % LINE_BYTES == 0

    def _loads_vectors(self, extent: int) -> bool:
        """Whether vectors of `extent` elements are loaded, of which a thread can load neighbours at
        once."""
        for op in accesses(self.function):
            vector, _, width = self._request(op)
            if op.results and width > 1 and prod(vector) == max(vector) == extent:
                return True
        return False

    def _request(self, op: Op) -> tuple[Vector, Vector, int]:
        """The shape of an access, its dimensions with the fastest first, and the number of elements
        per access of a thread."""
        if op not in self._requests:
            self._requests[op] = self._compute_request(op)
        return self._requests[op]

    def _compute_request(self, op: Op) -> tuple[Vector, Vector, int]:
        pointer = op.inputs[0]
        shape = shape_of(pointer.type)
        fast = contiguous_dim(op, self.contiguity)
        width = min(self.contiguity.width(op, fast), _per_access(pointer.type))
        others = [d for d in row_major(len(shape)) if d != fast]
        is_whole = op.mnemonic == "load" and 1 < shape[fast] <= width and not self.multiplies
        if is_whole and sum(n > 1 for n in shape) > 2:
            from tileir.backend.layouts.looked_up import loaded_together  # few kernels need it

            last = loaded_together(self.function, pointer, fast, self._request)
            if last is not None:
                others.sort(key=lambda d: d == last)
                self._owned.add((shape, (fast, *others)))
        return shape, (fast, *others), width


def _without_ones(shape: Vector, order: Vector) -> _Accessed:
    """`shape` and `order`, its dimensions fastest first, without those of extent 1."""
    kept = [d for d, n in enumerate(shape) if n > 1]
    return tuple(shape[d] for d in kept), tuple(kept.index(d) for d in order if d in kept)


def _slices(function: Function) -> Iterator[Op]:
    """Yield the ops that read the shared memory of other blocks of the cluster."""
    scattered = any(op.mnemonic == _SCATTER for op in function.ops)
    reading = (_REMOTE, _STAGED) if scattered else (_REMOTE,)
    return (op for op in function.ops if op.mnemonic in reading)


def _wide(kind: object, order: Vector | None = None) -> tuple[Vector, Vector, int]:
    """The preference of a tile that is accessed in shared memory: few accesses, along the first
    dimension of `order`, else along the last one."""
    assert isinstance(kind, Tile) and isinstance(kind.element, Scalar)
    width = max(1, VECTOR_BYTES // kind.element.bytes)
    return kind.shape, order or row_major(len(kind.shape)), width


def free_loads(anchors: AnchorLayouts) -> frozenset[Op]:
    """Loads that need no layout of their own. Their elements then need not move between threads,
    which need no barrier. Without dots, these are loads of at most one element for each thread;
    next to wgmma also those that have no neighbours for a vector access. Loads from addresses to
    which the kernel also stores are not free there, since the stored values move anyway."""
    function, few = anchors.function, _LANES * anchors.num_warps
    if not anchors.multiplies:
        loads = (op for op in function.ops if op.mnemonic == "load" and is_access(op))
        return frozenset(op for op in loads if prod(shape_of(op.results[0].type)) <= few)
    if not any(op.mnemonic == "gpu.wgmma" for op in function.ops):
        return frozenset()
    return frozenset(
        op
        for op in function.ops
        if (op.mnemonic == _STAGED or (op.mnemonic == "load" and is_access(op)))
        and (
            prod(shape_of(op.results[0].type)) <= few
            or (_is_strided(anchors, op) and op not in anchors.updates)
        )
    )


def _is_strided(anchors: AnchorLayouts, op: Op) -> bool:
    """Whether a load has no neighbours that a thread could read at once."""
    return op.mnemonic != _STAGED and anchors.width(op) == 1


def contiguous_dim(op: Op, contiguity: AccessWidths) -> int:
    """The dimension along which an access has most neighbours."""
    return contiguity.nearest(op.inputs[0])


def layout_of_powers(shape: Vector, num_warps: int) -> Layout:
    """A layout in which lanes and warps move along one dimension each, by powers of two. It may be
    larger than the tile."""
    covered = tuple(1 << (extent - 1).bit_length() for extent in shape)
    return blocked_layout(covered, row_major(len(shape)), 1, num_warps)


def row_major(rank: int) -> Vector:
    """All dimensions, the last the fastest."""
    return tuple(reversed(range(rank)))


def neighbours_first(source: Layout, dim: int) -> Layout:
    """`source` with the registers of neighbours along `dim` first, so that one access can cover
    them; the same layout if they are first already."""
    along: list[Vector] = []
    while (
        unit := tuple((1 << len(along)) * (d == dim) for d in range(source.rank))
    ) in source.register:
        along.append(unit)
    first = (*along, *(v for v in source.register if v not in along))
    if first == source.register:
        return source
    return layout(
        source.rank, first, source.lane, source.warp, source.block, repeats=source.repeats
    )


def vector_run(layout: Layout, dim: int) -> int:
    """The number of neighbours along `dim` in the first registers of a thread, in order. In every
    thread, the first of them is at a multiple of that number."""
    length, count = 1, 0
    for vector in layout.register:
        if vector[dim] != length or sum(vector) != length:
            break
        length, count = length * 2, count + 1
    moved = 0
    for vector in (*layout.register[count:], *layout.lane, *layout.warp):
        moved |= vector[dim]
    return length if moved % length == 0 else moved & -moved


def _per_access(type: object) -> int:
    return max(1, VECTOR_BYTES // _element_bytes(type))


def _element_bytes(type: object) -> int:
    assert isinstance(type, Tile) and isinstance(type.element, Pointer)
    return type.element.pointee.bytes
