"""Conflicts of threads: the threads that two accesses to global memory let access the same byte."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tileir.types import Pointer, Tile, Type, element_of, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.analysis.affine_mod32 import AffineMod32
    from tileir.analysis.underlying_pointers import Roots

Base: TypeAlias = "Value | None"
"""The parameter that a pointer is derived from; None where it is unknown."""

_MAX_ACCESSES = 1 << 17
"""Accesses of single elements, by threads, that are looked at one by one."""
_MAX_DISTANCE = 1 << 30
"""Distances modulo 2^32 below this are true ones."""
_MAX_ITERATIONS = 8
"""The number of earlier iterations that are examined."""


class SyncScope(IntEnum):
    """The threads that must synchronize between two accesses."""

    NONE = 0
    """None: a thread conflicts only with itself."""
    WARP = 1
    """Threads of one warp."""
    BLOCK = 2


class AccessingThreads(Enum):
    """The threads that access an element of a tile, or a scalar."""

    EVERY = "every thread that owns it"
    FIRST = "the first of them"
    ANY = "not known"


@attrs.frozen(eq=False)
class GlobalAccess:
    """One op's access of global memory through one pointer: of `type`, from `base` or one of
    `roots`, at `form`, under `mask`. It accesses the first `extents` elements of each dimension at
    most: None where these are all."""

    base: Base
    roots: Roots
    type: Type
    form: AffineMod32 | None
    writes: bool
    threads: AccessingThreads
    mask: Operand | None = None
    extents: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The elements of each dimension that may be accessed."""
        return shape_of(self.type) if self.extents is None else self.extents

    @property
    def place(self) -> AffineMod32:
        """The affine form of the address. It must be known."""
        assert self.form is not None
        return self.form

    @property
    def size(self) -> int:
        """Bytes of an element."""
        kind = element_of(self.type)
        assert isinstance(kind, Pointer)
        return kind.pointee.bytes


def required_sync(a: GlobalAccess, b: GlobalAccess, warps: int | None, step: int = 0) -> SyncScope:
    """The threads that must synchronize between `a` and a later `b`, of which one writes, in a
    block of `warps`, to keep program order. Within their extents, masks are assumed to be true. If
    `step` is not 0, `a` was made one or more iterations ago, and each iteration moves it by `step`
    bytes. A loop is assumed not to revisit an address by wrapping around 2^32."""
    if a.form is None or b.form is None or a.form.terms != b.form.terms:
        return SyncScope.BLOCK
    count = warps or 1
    return _later_iterations(a, b, count, step) if step else _same_iteration(a, b, count)


def only_thread_zero(a: GlobalAccess) -> bool:
    """Whether thread 0 is the only one that makes access `a`."""
    return a.threads is AccessingThreads.FIRST and not isinstance(a.type, Tile)


def _later_iterations(a: GlobalAccess, b: GlobalAccess, warps: int, step: int) -> SyncScope:
    scope = SyncScope.NONE
    for iterations in range(1, _MAX_ITERATIONS):
        form = attrs.evolve(a.place, start=a.place.start - iterations * step)
        earlier = attrs.evolve(a, form=form)
        if _has_passed(earlier, b, step):
            return scope
        scope = max(scope, _same_iteration(earlier, b, warps))
    return SyncScope.BLOCK


def _same_iteration(a: GlobalAccess, b: GlobalAccess, warps: int) -> SyncScope:
    if spans_disjoint(a, b):
        return SyncScope.NONE
    if AccessingThreads.ANY in (a.threads, b.threads) or _is_large(a) or _is_large(b):
        return SyncScope.BLOCK
    return _by_bytes(a, b, warps)


def _has_passed(a: GlobalAccess, b: GlobalAccess, step: int) -> bool:
    """Whether `a`, which every earlier iteration moves by -`step`, has passed `b`."""
    return spans_disjoint(a, b) and (_span(b) > _span(a)) is (step > 0)


def spans_disjoint(a: GlobalAccess, b: GlobalAccess, moved: tuple[int, int] = (0, 0)) -> bool:
    """Whether the byte ranges of the two accesses are disjoint, without the terms of their forms;
    `b` is displaced by a distance between the two bounds of `moved`."""
    (a_low, a_high), (b_low, b_high) = _span(a), _span(b)
    b_low, b_high = b_low + moved[0], b_high + moved[1]
    if max(a_high, b_high) - min(a_low, b_low) > _MAX_DISTANCE:
        return False
    return a_high <= b_low or b_high <= a_low


def joint_length(a: GlobalAccess, b: GlobalAccess) -> int | None:
    """The bytes from the first one to the last one that the two accesses reach, whose addresses
    have the same terms; None if they may not be true distances."""
    (a_low, a_high), (b_low, b_high) = _span(a), _span(b)
    length = max(a_high, b_high) - min(a_low, b_low)
    return length if length <= _MAX_DISTANCE else None


def _span(a: GlobalAccess) -> tuple[int, int]:
    low, high = a.place.interval(a.shape)
    return low, high + a.size


def _is_large(a: GlobalAccess) -> bool:
    """Whether there are too many bytes to analyse."""
    from tileir.backend.shared_memory.element_owners import LANES

    if not isinstance(a.type, Tile):
        return False
    layout = a.type.layout
    return layout.size("register") * LANES * layout.size("warp") * a.size > _MAX_ACCESSES


def _by_bytes(a: GlobalAccess, b: GlobalAccess, warps: int) -> SyncScope:
    import numpy as np  # a slow import, needed only if spans overlap

    from tileir.backend.shared_memory.element_owners import LANES

    same_elements = a.size == b.size and not _is_shifted(a, b)
    first, second = (_ends(x, warps, same_elements) for x in (a, b))
    _, i, j = np.intersect1d(first[0], second[0], assume_unique=True, return_indices=True)
    low = np.minimum(first[1][i], second[1][j])
    high = np.maximum(first[2][i], second[2][j])
    if (low == high).all():
        return SyncScope.NONE
    return SyncScope.WARP if (low // LANES == high // LANES).all() else SyncScope.BLOCK


def _is_shifted(a: GlobalAccess, b: GlobalAccess) -> bool:
    """Whether an element of one access can overlap two of the other."""
    steps = (a.place.start - b.place.start, *a.place.strides, *b.place.strides)
    return any(step % a.size for step in steps)


def _ends(a: GlobalAccess, warps: int, same_elements: bool) -> Any:
    """Three arrays: the accessed elements (with `same_elements`) or bytes, and the first and the
    last thread that accesses each."""
    import numpy as np

    at, threads = _owners(a, warps)
    places = a.place.start + at @ np.array(a.place.strides, np.int64)
    if not same_elements:
        places = (places[:, None] + np.arange(a.size)).reshape(-1)
        threads = np.repeat(threads, a.size)
    places %= 1 << 32
    order = np.argsort(places, kind="stable")
    places, threads = places[order], threads[order]
    starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
    low, high = np.minimum.reduceat(threads, starts), np.maximum.reduceat(threads, starts)
    return places[starts], low, high


def _owners(a: GlobalAccess, warps: int) -> Any:
    import numpy as np

    from tileir.backend.shared_memory.element_owners import LANES, element_owners

    if isinstance(a.type, Tile):
        return element_owners(a.type.layout, a.shape, a.threads is AccessingThreads.FIRST)
    threads = np.arange(1 if a.threads is AccessingThreads.FIRST else warps * LANES)
    return np.zeros((len(threads), 0), np.int64), threads
