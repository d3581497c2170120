"""Micro- and nano-tiles that a kernel asks for: who holds what, and that results stay."""

from pathlib import Path

import pytest

from tileir.backend.compile import Options, run_pipeline
from tileir.backend.target import target
from tileir.errors import CompileError
from tileir.executor import executor
from tileir.layout_tilings import nested_layout
from tileir.textual import parse
from tileir.tools.check import verdicts
from tileir.tools.inputs import draw, recipe

EXAMPLES = Path(__file__).parents[2] / "examples"
MATMUL = (
    (EXAMPLES / "matmul.tir").read_text("utf-8").replace("48", "64").replace("[5, 6]", "[4, 6]")
)
ADD = (EXAMPLES / "add.tir").read_text("utf-8")


def asking(text, **attributes):
    module = parse(text)
    kernel = module.kernel(None)
    changed = kernel.evolve(attributes={**kernel.attributes, **attributes})
    return module.with_functions({**module.functions, kernel.name: changed})


def correct(module, **options):
    plan = recipe(module)
    before = draw(plan, 0)
    after = {k: v.copy() if hasattr(v, "copy") else v for k, v in before.items()}
    executor("simt").launch(module, None, plan.grid, after, **options)
    return all(v.good for v in verdicts(plan, before, after))


def layout_of(module, mnemonic):
    done = run_pipeline(module, target("sm_90"), Options(num_warps=4), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    return next(op.results[0].type.layout for op in ops if op.mnemonic == mnemonic)


CUTS = [
    ((8, 16), (1, 4)), ((16, 32), (4, 4)), ((32, 8), (2, 4)), ((8, 8), (2, 1)), ((32, 32), (8, 4)),
]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("micro", "nano"), CUTS)
def test_matmuls_are_cut_as_the_kernel_asks(micro, nano):
    layout = layout_of(asking(MATMUL, micro=micro, nano=nano), "dot")
    coordinates = {layout.coordinate(register=r) for r in range(nano[0] * nano[1])}
    assert coordinates == {(i, j) for i in range(nano[0]) for j in range(nano[1])}
    warp = {layout.coordinate(r, lane) for r in range(len(coordinates)) for lane in range(32)}
    assert warp == {(i, j) for i in range(micro[0]) for j in range(micro[1])}


@pytest.mark.slow
@pytest.mark.parametrize(("micro", "nano"), CUTS[1:2])
def test_matmuls_that_are_cut_are_right(micro, nano):
    assert correct(asking(MATMUL, micro=micro, nano=nano))


def test_the_usual_cut_is_eight_lanes_by_four_that_hold_16_bytes():
    assert layout_of(parse(MATMUL), "dot") == layout_of(
        asking(MATMUL, micro=(8, 16), nano=(1, 4)), "dot"
    )


def test_accesses_of_kernels_without_dots_are_tiled_too():
    module = asking(ADD, micro=64, nano=2)
    layout = layout_of(module, "load")
    assert [layout.coordinate(register=r) for r in range(2)] == [(0,), (1,)]
    assert layout.coordinate(lane=31) == (62,)
    assert correct(module)


@pytest.mark.parametrize(
    ("micro", "nano", "message"),
    [
        ((8, 8), (1, 1), "not shared by the 32 lanes"), ((8, 16), (1,), "not shared"),
        ((6, 16), (3, 1), "powers of two"), ("wide", (1, 4), "numbers per dimension"),
        ((8, 16), None, "numbers per dimension"), ((8, 4), (1, 8), "not shared"),
    ],
)  # fmt: skip
def test_cuts_that_are_none_are_refused(micro, nano, message):
    tiling = {k: v for k, v in (("micro", micro), ("nano", nano)) if v is not None}
    with pytest.raises(CompileError, match=message) as error:
        run_pipeline(asking(MATMUL, **tiling), target("sm_90"), Options(), None)
    assert error.value.code == "TIR0708"


def test_tilings_cover_what_they_are_made_for():
    layout = nested_layout((64, 32), (1, 0), (2, 4), (4, 8), 4)
    covered = {
        layout.coordinate(r, lane, warp)
        for r in range(layout.size("register")) for lane in range(32) for warp in range(4)
    }  # fmt: skip
    assert covered == {(i, j) for i in range(64) for j in range(32)}
    assert layout.size("register") * 32 * 4 == 64 * 32
