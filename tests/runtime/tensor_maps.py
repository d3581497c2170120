"""A driver whose tensor maps are their words, so that a launch shows what its maps describe."""

import ctypes
import struct
import threading

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
        found = map_bytes(
            kind, address, extents[:rank], strides[: rank - 1], box[:rank], swizzle, fill
        )
        ctypes.memmove(to, found, 128)
        return 0
