"""What a compilation says about the lines of a kernel."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tileir import textual
from tileir.backend import compile as compile_kernel
from tileir.errors import Severity
from tileir.passmanager import Recorder
from tileir.tools.main import main
from tileir.tools.opt import main as opt

COPY = """tir 1.0
define kernel void @copy(f32* {x} noalias %x, f32* aligned(16) noalias %y, i32 {n} %n) {{
entry:
  %i = make_range i32<{size}>
  %ns = splat i32<{size}> %n
  %m, _ = icmp (i1<{size}>, i1<{size}>) %i, %ns {{predicate = {predicate}}}
  %xs = splat f32*<{size}> %x
  %j = mul i32<{size}> %i, {stride}
  %p = getelementptr f32*<{size}> %xs, %j
  %ys = splat f32*<{size}> %y
  %q = getelementptr f32*<{size}> %ys, %i
  %v = load f32<{size}> %p, %m
  store %q, %v, %m
  ret
}}
"""
PLAIN: dict[str, Any] = {
    "x": "aligned(16)", "n": "multiple_of(16)", "size": 1024, "stride": 1, "predicate": "slt"
}  # fmt: skip


def remarks(changed: Mapping[str, Any] = {}, **options: Any) -> list[tuple[str, int, str]]:
    module = textual.parse(COPY.format(**{**PLAIN, **changed}), "copy.tir")
    remarks = compile_kernel(module, "sm_80", options).remarks
    assert all(r.severity is Severity.REMARK and r.location for r in remarks)
    return [(r.code, r.location.line, r.message) for r in remarks if r.location]


def load(changed: Mapping[str, Any]) -> list[str]:
    return [text for _, line, text in remarks(changed) if line == 12 and text.startswith("load")]


def test_wide_accesses_say_how_wide():
    wide = "4 elements (16 bytes) at a time"
    emitted = remarks()
    assert ("TIR0755", 12, f"load: {wide}") in emitted
    assert ("TIR0755", 13, f"store: {wide}") in emitted


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"x": ""}, "the alignment of the addresses is unknown"),
        ({"x": "aligned(4)"}, "the addresses are provably multiples of 4 bytes only"),
        ({"stride": 3}, "no 2 neighbours have consecutive addresses"),
        ({"n": "", "predicate": "ne"}, "its mask may differ between 2 neighbours"),
        ({"size": 999}, "an extent of 999 is not a multiple of 2"),
    ],
)
def test_narrow_accesses_say_why(changed: dict[str, Any], why: str):
    assert f"load: element by element, as {why}" in load(changed)


def test_small_tiles_have_nothing_to_access_at_once():
    emitted = remarks({"size": 128}, num_warps=4)
    assert ("TIR0755", 12, "load: element by element, as a thread owns 1 neighbour only") in emitted


def test_a_mask_that_nothing_is_known_of_has_two_paths():
    assert [text.partition(",")[0] for text in load({"n": ""})] == [
        "load: 4 elements (16 bytes) at a time", "load: element by element"
    ]  # fmt: skip


def test_a_mask_without_a_last_lane_is_remarked_by_the_pass():
    assert any(
        code == "TIR0753" and line == 12 for code, line, _ in remarks({"n": "", "predicate": "ne"})
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "4 warps per block, chosen from its largest tile"),
        ({"num_warps": 1}, "1 warp per block, as the options say"),
    ],
)
def test_warps(options: dict[str, int], message: str):
    assert ("TIR0757", 2, message) in remarks(**options)


def test_what_is_cut_is_remarked():
    texts = [text for code, _, text in remarks({"size": 1 << 16}) if code == "TIR0751"]
    assert texts == ["store of 65536 elements is a loop along dimension 0"]


def test_pipelined_loads_and_their_stages():
    text = (Path(__file__).parents[2] / "examples/matmul.tir").read_text("utf-8")
    module = textual.parse(text, "matmul.tir")
    remarks = compile_kernel(module, "sm_80", {"num_warps": 4, "num_stages": 3}).remarks
    copied = [r.message for r in remarks if r.code == "TIR0756"]
    assert len(copied) == 2
    assert all(m.endswith("copied 2 iterations ahead, 3 stages") for m in copied)
    assert not any(r.code == "TIR0653" for r in remarks)


def test_the_commands_print_them_with_their_lines(tmp_path, capsys):
    file = Path(__file__).parents[2] / "examples/softmax.tir"
    assert (
        main(
            ["run", "--remarks", "--ptx", str(tmp_path / "a.ptx"), "--on", "interpreter", str(file)]
        )
        == 0
    )
    run = capsys.readouterr().err
    assert "remark[TIR0755]: load: " in run
    assert "%v = load f32<1024> %px, %in, -inf" in run
    assert (
        opt(
            [
                str(file),
                "--emit",
                "ptx",
                "--target",
                "sm_80",
                "--remarks",
                "-o",
                str(tmp_path / "b.ptx"),
            ]
        )
        == 0
    )
    assert capsys.readouterr().err == run
    assert (
        opt([str(file), "--emit", "ptx", "--target", "sm_80", "-o", str(tmp_path / "b.ptx")]) == 0
    )
    assert capsys.readouterr().err == ""


IDLE = "384 of 512 threads duplicate elements of others: 4 warps would do"


def test_threads_without_work_are_told_of():
    """Triton PTX 2023: kernels 230423_03b and 230424_01: 16 warps for tiles of 128."""
    emitted = remarks({"size": 128}, num_warps=16)
    assert [text for code, _, text in emitted if code == "TIR0754"] == [IDLE]
    assert all(code != "TIR0754" for code, _, _ in remarks({"size": 128}, num_warps=4))


def test_layouts_tell_that_a_block_has_idle_warps():
    """The stages after these run once, for the warps that the block has."""
    module, recorder = textual.parse(COPY.format(**{**PLAIN, "size": 128})), Recorder()
    options = {"num_warps": 16}
    compiled = compile_kernel(module, "sm_80", options, idle_warps=False, recorder=recorder)
    names = [record.step.node.name for record in recorder.records]
    assert (names.count("assign-layouts"), names.count("plan-host")) == (2, 1)
    assert (compiled.plan.num_warps, compiled.options.num_warps) == (4, 4)
    assert compiled.ptx == compile_kernel(module, "sm_80", {"num_warps": 4}).ptx


@pytest.mark.parametrize("name", ["kernel_230423_03b", "kernel_230424_01"])
def test_the_warps_that_would_do_are_chosen_where_the_kernel_says_none(name):
    path = Path(__file__).parents[1] / "corpus" / "triton_ptx_2023" / f"{name}.tir"
    stated = textual.parse(path.read_text())
    assert IDLE in [r.message for r in compile_kernel(stated, "sm_80").remarks]
    open_ = textual.parse(path.read_text().replace(" {num_warps = 16}", ""))
    compiled = compile_kernel(open_, "sm_80")
    assert compiled.plan.num_warps <= 4
    assert all(r.code != "TIR0754" for r in compiled.remarks)
