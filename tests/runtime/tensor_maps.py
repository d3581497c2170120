"""A driver whose tensor maps are their words, so that a launch shows what its maps describe."""

import ctypes
import itertools
import struct
import threading

from tileir.backend.tma.host_plan import HostPlan, MapRecipe

ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_uint] * 4,
)  # fmt: skip
"""The type of `cuTensorMapEncodeTiled`."""

_FORMAT = "<4I 10Q 5I"


def map_bytes(kind, address, extents, strides, box, swizzle, fill):
    """The 128 bytes of a map, all innermost first."""
    rank = len(extents)
    padded = [[*numbers, *[0] * (5 - len(numbers))] for numbers in (extents, strides, box)]
    whole = struct.pack(
        _FORMAT, kind, rank, swizzle, fill, address, *padded[0], *padded[1][:4], *padded[2]
    )
    return whole.ljust(128, b"\x5a")


def expected_bytes(values, kinds):
    """The bytes of `MapValues` (`tileir.backend.tma.host_plan`); `kinds`: codes of elements."""
    from tileir.backend.codegen.tma_boxes import box_of

    recipe = values.recipe
    box = box_of(recipe.block, recipe.size, recipe.swizzle)
    return map_bytes(
        kinds[recipe.element], values.address, values.extents[::-1], values.strides[::-1],
        box[::-1], recipe.swizzle, int(recipe.padding != "zero"),
    )  # fmt: skip


def edge_cases(size, rank):
    """Base, extents and strides of tensors of `rank` dimensions of elements of `size` bytes, with
    up to two numbers at the bounds of what a tensor map can describe, and whether one can (CUDA
    driver API, cuTensorMapEncodeTiled): the base and the strides of outer dimensions are multiples
    of 16 bytes, extents are 1 to 2^32, strides less than 2^40 bytes, and rows contiguous."""
    unit = 16 // size
    usual = [4096, *range(70, 70 + rank), *(unit << (10 * (rank - d)) for d in range(1, rank)), 1]
    edges = [(0, n) for n in (16, 4104, 4097, (1 << 47) + 16)]
    edges += [(1 + d, n) for d in range(rank) for n in (-1, 0, 1, 1 << 32, (1 << 32) + 1, 1 << 40)]
    longest = (1 << 40) // size
    edges += [
        (1 + rank + d, n) for d in range(rank - 1)
        for n in (-unit, 0, unit, unit + 1, longest - unit, longest, longest + unit)
    ]  # fmt: skip
    edges += [(2 * rank, n) for n in (-1, 0, 1, 2)]
    for changes in ((), *((e,) for e in edges), *itertools.combinations(edges, 2)):
        numbers = list(usual)
        for place, number in changes:
            numbers[place] = number
        base, extents, strides = numbers[0], numbers[1 : 1 + rank], numbers[1 + rank :]
        fits = base % 16 == 0 and strides[-1] == 1
        fits &= all(1 <= n <= 1 << 32 for n in extents)
        fits &= all(0 < s * size < 1 << 40 and s * size % 16 == 0 for s in strides[:-1])
        yield numbers, fits


def plan_of_edges(element, size, rank, padding, parameter=0):
    """A plan with one map, of a tensor whose base, extents and strides are the arguments."""
    block = (1,) * max(0, rank - 2) + (8, 64 // size)[-rank:]
    names = [f"a{i}" for i in range(1 + 2 * rank)]
    recipe = MapRecipe(
        element, size, block, 0, padding, "a0", tuple(names[1 : 1 + rank]),
        tuple(names[1 + rank :]), parameter,
    )  # fmt: skip
    return HostPlan(1 + 2 * rank, (), (), (recipe,))


EDGE_KINDS = (("f32", 4, 1, "nan"), ("f16", 2, 2, "zero"), ("i8", 1, 5, "zero"))
"""Element, its bytes, rank and padding of tensors for `edge_cases`."""


class Encoder:
    """`cuTensorMapEncodeTiled`. `encoded` counts its calls, `fails` lets it refuse."""

    def __init__(self):
        self.encoded, self.fails, self._lock = 0, False, threading.Lock()
        self._callback = ENCODE(self._encode)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value

    def _encode(
        self, to, kind, rank, address, extents, strides, box, steps, interleave, swizzle, l2, fill
    ):
        with self._lock:
            self.encoded += 1
        assert to % 64 == 0 and interleave == 0 and l2 == 3
        assert steps[:rank] == [1] * rank and 1 <= rank <= 5
        if self.fails:
            return 1
        result = map_bytes(
            kind, address, extents[:rank], strides[: rank - 1], box[:rank], swizzle, fill
        )
        ctypes.memmove(to, result, 128)
        return 0
