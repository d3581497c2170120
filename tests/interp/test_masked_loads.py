"""Lanes of masked loads that are defined: every combination of mask, predicate and filler."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import fails, run

LOAD = """
define kernel void @k(i8* %m, i8* %f, i8* %p, i8* %s, i32* %x, i32* %y) {
entry:
  %i = make_range i32<8>
MASKS  %xs = splat i32*<8> %x
  %from = getelementptr i32*<8> %xs, %i
  %ys = splat i32*<8> %y
  %to = getelementptr i32*<8> %ys, %i
  @%f.on %filler = add i32<8> %i, 100
  @%p.on %v = load i32<8> %from, %m.on, %filler
  store %to, %v, %s.on
  ret
}
"""
MASKS = "".join(
    f"""  %{n}.all = splat i8*<8> %{n}
  %{n}.at = getelementptr i8*<8> %{n}.all, %i
  %{n}.word = load i8<8> %{n}.at
  %{n}.on, _ = icmp (i1<8>, i1<8>) %{n}.word, 0 {{predicate = ne}}
"""
    for n in "mfps"
)
TEXT = LOAD.replace("MASKS", MASKS)


def bits(number: int) -> np.ndarray:
    """Bit `number` of the numbers 0 to 7."""
    return (np.arange(8) >> number & 1).astype(np.int8)


def test_lanes_have_what_was_loaded_or_the_filler() -> None:
    mask, filler, predicate = bits(0), bits(1), bits(2)
    defined = predicate & (mask | filler)
    x, y = np.arange(10, 18, dtype=np.int32), np.zeros(8, np.int32)
    run(TEXT, 1, mask, filler, predicate, defined, x, y)
    expected = np.where(mask != 0, x, np.arange(8) + 100)
    assert y.tolist() == np.where(defined != 0, expected, 0).tolist()


@pytest.mark.parametrize("lane", range(8))
def test_other_lanes_are_undefined(lane: int) -> None:
    mask, filler, predicate = bits(0), bits(1), bits(2)
    if predicate[lane] & (mask[lane] | filler[lane]):
        return
    stored = (np.arange(8) == lane).astype(np.int8)
    x, y = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    fails("TIR0505", "store %to", TEXT, 1, mask, filler, predicate, stored, x, y)


@pytest.mark.parametrize("filler", ["", ", %i"])
def test_what_was_never_written_is_undefined_in_lanes_that_load_it(filler: str) -> None:
    """Some elements are written before the load, under the mask that is otherwise the filler's."""
    text = TEXT.replace("  @%f.on %filler = add i32<8> %i, 100", "  store %from, %i, %f.on")
    text = text.replace("%m.on, %filler", f"%m.on{filler}")
    mask, written, predicate = bits(0), bits(1), bits(2)
    loaded = mask & written
    defined = predicate & ((1 - mask) | loaded if filler else loaded)
    for lane in range(8):
        stored = (np.arange(8) == lane).astype(np.int8)
        x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
        arguments = (1, mask, written, predicate, stored, x, y)
        if defined[lane]:
            run(text, *arguments, uninitialised=["x"])
            assert y.tolist() == (stored * np.arange(8)).tolist()
        else:
            fails("TIR0505", "store %to", text, *arguments, uninitialised=["x"])


ATOMIC = f"""
define kernel void @k(i8* %m, i8* %f, i8* %p, i8* %s, i32* %x, i32* %y) {{
entry:
  %i = make_range i32<8>
{MASKS}  %xs = splat i32*<8> %x
  %from = getelementptr i32*<8> %xs, %i
  %ys = splat i32*<8> %y
  %to = getelementptr i32*<8> %ys, %i
  @%p.on %v = ACCESS
  store %to, %v, %s.on
  ret
}}
"""
ATOMICS = {
    "rmw": "atomic_rmw i32<8> %from, %i, %m.on {op = add}",
    "cas": "atomic_cas i32<8> %from, %i, %i",
    "load": "atomic_load i32<8> %from, %m.on",
}


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_have_results_in_lanes_that_take_part(name: str) -> None:
    """The others are undefined, as those of a masked load."""
    mask, predicate = bits(0) if name != "cas" else np.ones(8, np.int8), bits(2)
    text = ATOMIC.replace("ACCESS", ATOMICS[name])
    for lane in range(8):
        stored = (np.arange(8) == lane).astype(np.int8)
        x, y = np.arange(10, 18, dtype=np.int32), np.zeros(8, np.int32)
        if mask[lane] & predicate[lane]:
            run(text, 1, mask, bits(1), predicate, stored, x, y)
            assert y.tolist() == np.where(stored, np.arange(10, 18), 0).tolist()
        else:
            fails("TIR0505", "store %to", text, 1, mask, bits(1), predicate, stored, x, y)
