"""Arrays keep their memory's shape on the way to a kernel and back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.array_spans import ArraySpan
from tileir.errors import LaunchError

BASE = np.arange(24, dtype=np.float32).reshape(4, 6)


@for_each("array", [
        BASE, BASE.T, BASE[::-1], BASE[:, ::2], BASE[1:3, ::-2], BASE[0], BASE[2, 3], BASE[:0],
        np.broadcast_to(BASE[0], (3, 6)), np.full((), 7, np.float32),
    ])  # fmt: skip
def test_every_element_is_where_its_strides_say(array: np.ndarray) -> None:
    array = np.asarray(array)
    span = ArraySpan.of(array)
    assert (span.elements == array).all()
    for index in np.ndindex(array.shape):
        at = span.offset + sum(i * s for i, s in zip(index, array.strides, strict=True))
        assert span.data[at : at + 4].view(np.float32)[0] == array[index]


def test_only_elements_are_written_back() -> None:
    whole = np.zeros((4, 6), np.float32)
    span = ArraySpan.of(whole[:, ::2])
    span.data[:] = np.frombuffer(np.float32(1).tobytes(), np.uint8)[np.arange(len(span.data)) % 4]
    ArraySpan.write_back([span])
    assert (whole[:, ::2] == 1).all() and (whole[:, 1::2] == 0).all()


def test_arrays_that_share_memory_are_copied_once() -> None:
    whole, other = np.arange(30, dtype=np.float32), np.ones(5, np.float32)
    parts = [whole[21:29], whole[3:20], other, whole[10:22][::-2], whole[:0], whole[3:20], other]
    spans = ArraySpan.each([*parts, 7])
    assert len({id(spans[id(a)].data) for a in parts}) == 3
    for array in parts:
        span = spans[id(array)]
        assert (span.elements == array).all()
        assert (span.offset - array.ctypes.data) % 16 == 0 or array is other or not array.size
    spans[id(parts[1])].elements[...] = -1
    assert (spans[id(parts[3])].elements == np.where(parts[3] < 20, -1, parts[3])).all()
    ArraySpan.write_back(spans[id(array)] for array in parts)
    assert (whole[3:20] == -1).all() and (whole[20:] == np.arange(20, 30)).all()


def test_nothing_is_written_back_where_a_read_only_array_has_changed() -> None:
    whole = np.zeros(12, np.float32)
    fixed = whole[4:8]
    fixed.flags.writeable = False
    spans = ArraySpan.each([whole, fixed])
    spans[id(whole)].elements[2:6] = 1
    with pytest.raises(LaunchError, match=r"TIR0710.*read-only"):
        ArraySpan.write_back(spans.values())
    assert not whole.any()
    spans[id(whole)].elements[4:6] = 0
    ArraySpan.write_back(spans.values())
    assert whole.tolist() == [0, 0, 1, 1] + [0] * 8


def test_arrays_that_only_touch_have_copies_of_their_own() -> None:
    """Each begins where memory that was asked for does, which is aligned."""
    whole = np.arange(24, dtype=np.float32)
    parts = [whole[:5], whole[5:11], whole[11:]]
    spans = ArraySpan.each(parts)
    assert [spans[id(a)].offset for a in parts] == [0, 0, 0]
    assert [spans[id(a)].data.nbytes for a in parts] == [20, 24, 52]
