"""Removed barriers: the SIMT simulator detects a race, or they are proven redundant."""

from pathlib import Path

import numpy as np
import pytest

from tileir import textual
from tileir.tools.barriers import BarrierSurvey, main, of_file, of_program, survey

ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / f"examples/{name}.tir" for name in ("softmax", "layer_norm", "matmul", "relu")),
    *sorted((ROOT / "tests/corpus/found").glob("*.tir")),
]


REDUNDANT = {
    "relu": 1, "warps_as_repetitions": 1, "copies_and_loads": 2, "copies_and_stores": 2,
    "strip_read_after_in_place": 1, "ordered_load_of_noalias": 1, "rows_named_by_rounds": 1,
}  # fmt: skip
"""By file, barriers that are proven redundant on its small numbers: threads find what they wrote
themselves."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_of_files(path, warps):
    result = of_file(str(path), warps)
    assert not result.survivors
    assert result.detected >= result.removed - REDUNDANT.get(path.stem, 0)


@pytest.mark.slow
def test_of_programs():
    """Of 24 generated programs on 1, 2, 4 and 8 warps, in turn."""
    total = BarrierSurvey()
    for seed in range(24):
        total.add(of_program(seed))
    assert total.removed > 40
    assert total.detected + len(total.redundant) == total.removed
    assert total.detection_rate >= 0.85  # after an acquire all threads wait, whatever they then do
    assert not total.survivors


EXCHANGE = """tir 1.0

define kernel void @exchange(i32* aligned(16) %x, i32* aligned(16) %y) {
entry:
  %i = make_range i32<256>
  %xs = splat i32*<256> %x
  %p = getelementptr i32*<256> %xs, %i
  store %p, %i
  %back = sub i32<256> 255, %i
  %q = getelementptr i32*<256> %xs, %back
  %v = load i32<256> %q
  %ys = splat i32*<256> %y
  %r = getelementptr i32*<256> %ys, %i
  store %r, %v
  ret
}
"""


def test_through_global_memory():
    arguments = {name: np.zeros(256, np.int32) for name in "xy"}
    report = survey(textual.parse(EXCHANGE), None, (1,), [arguments], 4)
    assert (report.removed, report.detected) == (1, 1)


COUNTED = """tir 1.0

define kernel void @count(i32* aligned(16) %x, i32* aligned(16) %y, i1 %c) {
entry:
  %i = make_range i32<64>
  %xs = splat i32*<64> %x
  %p = getelementptr i32*<64> %xs, %i
  %v = load i32<64> %p
  %n = histogram i32<8> %v
  %k = make_range i32<8>
  %ys = splat i32*<8> %y
  %q = getelementptr i32*<8> %ys, %k
  cond_br %c, keep, end
keep:
  store %q, %n
  br end
end:
  ret
}
"""


def test_other_data_show_what_these_do_not():
    """No value falls into a bin, so no addition is made; others would."""
    arguments = {"x": np.full(64, 100, np.int32), "y": np.zeros(8, np.int32), "c": True}
    report = survey(textual.parse(COUNTED), None, (1,), [arguments], 4)
    assert (report.removed, report.detected) == (2, 2)


ON_DATA = """tir 1.0

define kernel void @move(i32* aligned(16) %x, i32* aligned(16) %y, i32 %step) {
entry:
  %i = make_range i32<256>
  %ys = splat i32*<256> %y
  %p = getelementptr i32*<256> %ys, %i
  %at = load i32<256> %p
  %xs = splat i32*<256> %x
  %q = getelementptr i32*<256> %xs, %at
  %v = load i32<256> %q
  store %q, %v
  ret
}
"""


def test_what_depends_on_memory_is_not_proven_by_one_run():
    """Every thread finds its own number in memory, so that it conflicts with none. Other numbers
    may be there. Where the number comes from an argument, memory has no say."""
    arguments = {"x": np.zeros(256, np.int32), "y": np.arange(256, dtype=np.int32), "step": 1}
    report = survey(textual.parse(ON_DATA), None, (1,), [arguments], 8)
    assert (report.removed, report.detected, len(report.survivors)) == (1, 0, 1)
    computed = ON_DATA.replace(
        "%at = load i32<256> %p",
        """%n = splat i32<256> %step
  %at = mul i32<256> %i, %n""",
    )
    report = survey(textual.parse(computed), None, (1,), [arguments], 8)
    assert (report.removed, report.detected, len(report.redundant)) == (1, 0, 1)
    report = survey(textual.parse(computed), None, (1,), [{**arguments, "step": 0}], 8)
    assert (report.removed, report.detected) == (1, 1)


@pytest.mark.slow
def test_the_command_counts(capsys):
    assert main([str(ROOT / "examples/softmax.tir"), "--programs", "1", "--warps", "1,2"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "removals are detected, 0 barriers are redundant, 0 removals survive" in last
