"""Memory accesses of the thread interface for the lanes of a CPU's vectors.

Lanes with contiguous addresses are accessed by one vector instruction, masked if some lanes are
inactive. If contiguity is not known at compile time, the code tests it at run time. Other accesses
gather and scatter. Shared memory is a buffer on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.cpu.lane_values import (
    WIDTH,
    AffineValue,
    Lanes,
    VectorValue,
    scalar_type,
    stored_type,
    vector_type,
)
from tileir.backend.cpu.numbers import ArithmeticOps
from tileir.types import I1, I8, I32, I64, AddressSpace, Element, Pointer

_SHARED = Pointer(I8, AddressSpace.GENERIC)
_NARROW = frozenset({"i8", "i16", "half", "bfloat"})
"""Elements that CPUs have no instruction to gather or scatter."""
_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


class MemoryOps(ArithmeticOps):
    """Global and shared accesses."""

    def load_global(
        self, element: Element, count: int, pointer: Lanes, mask: Lanes | None,
        other: Sequence[Lanes] | None, access: AccessAttributes, space: int = 1,
    ) -> list[Lanes]:  # fmt: skip
        if mask == "false":
            return list(other) if other is not None else [self.constant(element, 0)] * count
        active = self.active_under(mask)
        self._keep_in_place(access)
        values = self._load(element, count, pointer, active, space, access.volatile)
        self._keep_in_place(access)
        if mask in (None, "true") or other is None:
            return values
        assert mask is not None
        return [self.select(element, mask, x, y) for x, y in zip(values, other, strict=True)]

    def store_global(
        self, element: Element, pointer: Lanes, values: Sequence[Lanes], mask: Lanes | None,
        access: AccessAttributes, space: int = 1,
    ) -> None:  # fmt: skip
        if mask != "false":
            self._keep_in_place(access)
            self._store(element, pointer, values, self.active_under(mask), space, access.volatile)
            self._keep_in_place(access)

    def _keep_in_place(self, access: AccessAttributes) -> None:
        """Emit a compiler barrier around volatile accesses. LLVM has no volatile vector accesses
        with masks; the barrier keeps it from moving the accesses over others or out of loops. It
        costs no instruction."""
        if access.volatile:
            self.line('fence syncscope("singlethread") seq_cst')

    def load_shared(self, element: Element, count: int, offset: Lanes) -> list[Lanes]:
        return self._load(element, count, self._place(offset), self.active_under(None), 0, False)

    def store_shared(self, element: Element, offset: Lanes, values: Sequence[Lanes]) -> None:
        self._store(element, self._place(offset), values, self.active_under(None), 0, False)

    def store_shared_if(
        self, condition: Lanes, element: Element, offset: Lanes, values: Sequence[Lanes]
    ) -> None:
        active = self.active_under(condition)
        self._store(element, self._place(offset), values, active, 0, False)

    def load_elements(self, element: Element, pointer: Lanes, mask: Lanes | None) -> Lanes:
        """Load an element for every lane, from memory that this compiler allocated."""
        (value,) = self._load(element, 1, pointer, self.active_under(mask), 0, False)
        return value

    def store_elements(
        self, element: Element, pointer: Lanes, value: Lanes, mask: Lanes | None
    ) -> None:
        """Store an element of every lane, to memory that this compiler allocated."""
        self._store(element, pointer, [value], self.active_under(mask), 0, False)

    def _place(self, offset: Lanes) -> Lanes:
        """The address of a byte of shared memory. Offsets never wrap."""
        if isinstance(offset, AffineValue) and not offset.condition:
            long = offset.long or self.emit(f"sext i32 {offset.base} to i64")
            index: Lanes = AffineValue(long, offset.step, long)
        else:
            index = self.convert("sext", I32, I64, offset)
        return self.offset_pointer(_SHARED, "%shared", index, "i8", 1)

    # Loads --------------------------------------------------------------------------------------

    def _load(
        self, element: Element, count: int, pointer: Lanes, active: Lanes | None, space: int,
        volatile: bool,
    ) -> list[Lanes]:  # fmt: skip
        kind, size = stored_type(element), element.bytes
        if isinstance(pointer, str):
            return self._load_one(element, count, pointer, active, space, volatile)
        places = self._places(pointer, size * count, space)
        vector = f"<{WIDTH} x {kind}>"
        if places is None:
            raw = self._gather(kind, count, size, pointer, active, space)
        elif places[0] == "":
            raw = self._load_row(kind, count, size, places[1], active, space)
        else:
            near, far = places
            raw = self.either(
                near, [vector] * count,
                lambda: self._load_row(kind, count, size, far, active, space),
                lambda: self._gather(kind, count, size, pointer, active, space),
            )  # fmt: skip
        return [self._from_memory(element, VectorValue(x)) for x in raw]

    def _load_one(
        self, element: Element, count: int, pointer: str, active: Lanes | None, space: int,
        volatile: bool,
    ) -> list[Lanes]:  # fmt: skip
        """Load from an address that is uniform over the lanes."""
        kind, word = stored_type(element), "load volatile" if volatile else "load"

        def read() -> list[str]:
            return [
                self.emit(
                    f"{word} {kind}, {self._offset_pointer(pointer, i * element.bytes, space)}, "
                          f"align {element.bytes}")
                for i in range(count)
            ]  # fmt: skip

        zero = "null" if kind.startswith("ptr") else ("0.0" if kind in _SUFFIX else "0")
        if active is None:
            raw = read()
        else:
            raw = self.either(self.any_of(active), [kind] * count, read, lambda: [zero] * count)
        return [self._from_memory(element, x) for x in raw]

    def _offset_pointer(self, pointer: str, offset: int, space: int) -> str:
        """The operand for the address `offset` bytes further on."""
        kind = _pointer(space)
        if offset == 0:
            return f"{kind} {pointer}"
        return f"{kind} " + self.emit(f"getelementptr i8, {kind} {pointer}, i64 {offset}")

    def _places(self, pointer: Lanes, stride: int, space: int) -> tuple[str, str] | None:
        """The condition ('': always) under which the addresses of consecutive lanes differ by
        `stride` bytes, and the first address; None if they never do."""
        if isinstance(pointer, AffineValue):
            return (pointer.condition, pointer.base) if pointer.step == stride else None
        assert isinstance(pointer, VectorValue)
        kind = _pointer(space)
        first = self.emit(f"extractelement <{WIDTH} x {kind}> {pointer}, i32 0")
        steps = ", ".join(f"i64 {lane * stride}" for lane in range(WIDTH))
        row = self.emit(f"getelementptr i8, {kind} {first}, <{WIDTH} x i64> <{steps}>")
        differ = self.emit(f"icmp ne <{WIDTH} x {kind}> {row}, {pointer}")
        name = f"@llvm.vector.reduce.or.v{WIDTH}i1"
        self.declare(f"declare i1 {name}({vector_type(I1)})")
        some = self.emit(f"call i1 {name}({vector_type(I1)} {differ})")
        return self.emit(f"xor i1 {some}, true"), first

    def _load_row(
        self, kind: str, count: int, size: int, first: str, active: Lanes | None, space: int
    ) -> list[str]:
        """Load one vector for the first neighbour of every lane, one for the second, and so on."""
        number, place = WIDTH * count, f"{_pointer(space)} {first}"
        row_type = f"<{number} x {kind}>"
        if active is None:
            row = self.emit(f"load {row_type}, {place}, align {size}")
        else:
            name = f"@llvm.masked.load.{_mangle(number, kind)}.p{space}"
            self.declare(
                f"declare {row_type} {name}({_pointer(space)}, i32, <{number} x i1>, {row_type})"
            )
            mask = self._repeat_lanes(self.mask(active), count)
            row = self.emit(
                f"call {row_type} {name}({place}, i32 {size}, <{number} x i1> {mask}, "
                f"{row_type} zeroinitializer)"
            )
        if count == 1:
            return [row]
        return [
            self._shufflevector(row_type, row, row, [i + count * lane for lane in range(WIDTH)])
            for i in range(count)
        ]

    def _gather(
        self, kind: str, count: int, size: int, pointer: Lanes, active: Lanes | None, space: int
    ) -> list[str]:
        vector, places = f"<{WIDTH} x {kind}>", f"<{WIDTH} x {_pointer(space)}>"
        name = self._gathering(kind, size, vector, places, space)
        lanes: list[str] = []
        for i in range(count):
            at, mask = self._offset_pointers(pointer, i * size, space), self.mask(active)
            lanes.append(
                self.emit(f"call {vector} {name}({places} {at}, {vector_type(I1)} {mask})")
            )
        return lanes

    def _gathering(self, kind: str, size: int, vector: str, places: str, space: int) -> str:
        """A function that loads an element from each of `places`. If the CPU has no gather
        instruction, LLVM emits 32 branches, so gathers of 8-bit and 16-bit elements stay a
        function."""
        does, name, attributes = _lane_by_lane("gather", kind, size, space)
        self.declare(f"declare {vector} {does}({places}, i32, {vector_type(I1)}, {vector})")
        self.declare(
            f"define internal {vector} {name}({places} %at, {vector_type(I1)} %mask) "
            f"{attributes} {{\n  %found = call {vector} {does}({places} %at, i32 {size}, "
            f"{vector_type(I1)} %mask, {vector} zeroinitializer)\n  ret {vector} %found\n}}"
        )
        return name

    def _offset_pointers(self, pointer: Lanes, offset: int, space: int) -> str:
        kind = Pointer(I8, AddressSpace(space))
        start = self.wide(kind, pointer)
        if offset == 0:
            return start
        return self.emit(f"getelementptr i8, {vector_type(kind)} {start}, i64 {offset}")

    def _repeat_lanes(self, mask: str, count: int) -> str:
        """A mask with every lane repeated `count` times."""
        if count == 1:
            return mask
        lanes = [i // count for i in range(WIDTH * count)]
        return self._shufflevector(vector_type(I1), mask, mask, lanes)

    def _shufflevector(self, kind: str, a: str, b: str, lanes: Sequence[int]) -> str:
        lane_words = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(
            f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{lane_words}>"
        )

    # Stores -------------------------------------------------------------------------------------

    def _store(
        self, element: Element, pointer: Lanes, values: Sequence[Lanes], active: Lanes | None,
        space: int, volatile: bool,
    ) -> None:  # fmt: skip
        kind, size, count = stored_type(element), element.bytes, len(values)
        raw = [self.to_memory(element, x) for x in values]
        if isinstance(pointer, str):
            self._store_one(element, pointer, raw, active, space, volatile)
            return
        wide = [self._wide_raw(kind, x) for x in raw]
        places = self._places(pointer, size * count, space)
        if places is None:
            self._scatter(kind, size, pointer, wide, active, space)
        elif places[0] == "":
            self._store_row(kind, size, places[1], wide, active, space)
        else:
            near, far = places

            def together() -> None:
                self._store_row(kind, size, far, wide, active, space)

            def separately() -> None:
                self._scatter(kind, size, pointer, wide, active, space)

            self.either(near, (), _nothing(together), _nothing(separately))

    def _store_one(
        self, element: Element, pointer: str, raw: Sequence[Lanes], active: Lanes | None,
        space: int, volatile: bool,
    ) -> None:  # fmt: skip
        """Store to an address that is uniform over the lanes. The last active lane's value is
        stored."""
        kind, word = stored_type(element), "store volatile" if volatile else "store"
        last = self._last_lane(active) if any(isinstance(x, VectorValue) for x in raw) else "0"

        def write() -> Sequence[str]:
            for i, x in enumerate(raw):
                one = x if isinstance(x, str) else self.emit(
                    f"extractelement <{WIDTH} x {kind}> {x}, i32 {last}")  # fmt: skip
                place = self._offset_pointer(pointer, i * element.bytes, space)
                self.line(f"{word} {kind} {one}, {place}, align {element.bytes}")
            return ()

        if active is None or (isinstance(active, VectorValue) and active.ones):
            write()
        else:
            self.either(self.any_of(active), (), write, lambda: ())

    def _last_lane(self, active: Lanes | None) -> str:
        if active is None or isinstance(active, str):
            return str(WIDTH - 1)
        if isinstance(active, VectorValue) and active.ones:
            return str(max(active.ones))
        bits = self.emit(f"bitcast {vector_type(I1)} {self.wide(I1, active)} to i{WIDTH}")
        self.declare("declare i32 @llvm.ctlz.i32(i32, i1)")
        zeros = self.emit(f"call i32 @llvm.ctlz.i32(i32 {bits}, i1 false)")
        return self.emit(f"and i32 {self.emit(f'sub i32 31, {zeros}')}, 31")

    def _store_row(
        self, kind: str, size: int, first: str, values: list[str], active: Lanes | None, space: int
    ) -> None:
        count = len(values)
        number, place = WIDTH * count, f"{_pointer(space)} {first}"
        row, row_type = self._interleave(kind, values), f"<{number} x {kind}>"
        if active is None:
            self.line(f"store {row_type} {row}, {place}, align {size}")
            return
        name = f"@llvm.masked.store.{_mangle(number, kind)}.p{space}"
        self.declare(f"declare void {name}({row_type}, {_pointer(space)}, i32, <{number} x i1>)")
        mask = self._repeat_lanes(self.mask(active), count)
        self.line(
            f"call void {name}({row_type} {row}, {place}, i32 {size}, <{number} x i1> {mask})"
        )

    def _interleave(self, kind: str, values: list[str]) -> str:
        """One vector with the values interleaved by lane; their number is a power of two."""
        if len(values) == 1:
            return values[0]
        even, odd = (self._interleave(kind, values[i::2]) for i in (0, 1))
        number = WIDTH * len(values) // 2
        lanes = [i // 2 + (number if i % 2 else 0) for i in range(2 * number)]
        return self._shufflevector(f"<{number} x {kind}>", even, odd, lanes)

    def _scatter(
        self, kind: str, size: int, pointer: Lanes, values: list[str], active: Lanes | None,
        space: int,
    ) -> None:  # fmt: skip
        vector, places = f"<{WIDTH} x {kind}>", f"<{WIDTH} x {_pointer(space)}>"
        name = self._scattering(kind, size, vector, places, space)
        for i, value in enumerate(values):
            at, mask = self._offset_pointers(pointer, i * size, space), self.mask(active)
            self.line(
                f"call void {name}({vector} {value}, {places} {at}, {vector_type(I1)} {mask})"
            )

    def _scattering(self, kind: str, size: int, vector: str, places: str, space: int) -> str:
        """A function that stores an element to each of the places, as `_gathering` loads."""
        does, name, attributes = _lane_by_lane("scatter", kind, size, space)
        self.declare(f"declare void {does}({vector}, {places}, i32, {vector_type(I1)})")
        self.declare(
            f"define internal void {name}({vector} %value, {places} %at, {vector_type(I1)} %mask) "
            f"{attributes} {{\n  call void {does}({vector} %value, {places} %at, i32 {size}, "
            f"{vector_type(I1)} %mask)\n  ret void\n}}"
        )
        return name

    # Values in memory ---------------------------------------------------------------------------

    def _from_memory(self, element: Element, x: str | VectorValue) -> Lanes:
        """The value of `x` as loaded from memory, where values of less than 8 bits take a byte."""
        if element.bits >= 8:
            return x
        return self.cast("trunc", "i8", scalar_type(element), I8, x)

    def to_memory(self, element: Element, x: Lanes) -> str | VectorValue:
        """`x` as it is stored in memory."""
        if element.bits < 8:
            x = self.cast("zext", scalar_type(element), "i8", element, x)
        return x if isinstance(x, (str, VectorValue)) else VectorValue(self.wide(element, x))

    def _wide_raw(self, kind: str, x: str | VectorValue) -> str:
        if isinstance(x, VectorValue):
            return x.text
        vector = f"<{WIDTH} x {kind}>"
        one = self.emit(f"insertelement {vector} poison, {kind} {x}, i64 0")
        return self._shufflevector(vector, one, one, [0] * WIDTH)


def _nothing(body: Callable[[], None]) -> Callable[[], Sequence[str]]:
    """`body` as a function that returns no values."""

    def run() -> Sequence[str]:
        body()
        return ()

    return run


def _pointer(space: int) -> str:
    return f"ptr addrspace({space})" if space else "ptr"


def _lane_by_lane(does: str, kind: str, size: int, space: int) -> tuple[str, str, str]:
    """The name of LLVM's intrinsic `does` for elements aligned to `size`, the function around it,
    and its attributes. An operation without an instruction on the CPU stays a function."""
    type = _mangle(WIDTH, kind)
    attributes = "#1" if kind in _NARROW else "#2"
    return (
        f"@llvm.masked.{does}.{type}.v{WIDTH}p{space}",
        f"@{does}.{type}.p{space}.{size}",
        attributes,
    )


def _mangle(number: int, kind: str) -> str:
    """The suffix of a vector type."""
    if kind.startswith("ptr"):
        space = kind.removeprefix("ptr").strip().removeprefix("addrspace(").removesuffix(")")
        return f"v{number}p{space or 0}"
    return f"v{number}{_SUFFIX.get(kind, kind)}"
