"""What conversions between layouts cost: every element arrives, and none takes more than it did.

`conversions.json` has, per conversion, bytes, instructions that a thread runs, shuffles, accesses
of shared memory, their wavefronts, and barriers. `--bless` keeps what is meant."""

import json
import random
from pathlib import Path

import pytest

from tests.sizes import few_or_all
from tileir.backend.codegen.emit.conversion import convert
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory.conversion_plan import conversion_bytes
from tileir.backend.simt.barrier_removal import counting
from tileir.backend.simt.counts import Counts
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.target import target as target_named
from tileir.builder import Builder
from tileir.layout import layout
from tileir.layout_fragments import mma_operand, mma_result
from tileir.layout_tilings import blocked_layout
from tileir.ops.gpu import ConvertLayout
from tileir.types import F16, F32, F64, I1, I8, Tile
from tileir.values import Value

from ..test_layout_conversion import numbered_tile, numbers

FILE = Path(__file__).with_name("conversions.json")
ELEMENTS = {"i1": I1, "i8": I8, "f16": F16, "f32": F32, "f64": F64}
SHAPES = ((8, 16), (32, 32), (16, 128), (128, 128), (5, 40), (12, 100))


def kernel_layouts(shape, warps):
    """Layouts as kernels have them."""
    yield "rows", blocked_layout(shape, (1, 0), 4, warps)
    yield "columns", blocked_layout(shape, (0, 1), 4, warps)
    yield "narrow", blocked_layout(shape, (1, 0), 1, warps)
    if shape[0] % 16 == 0 and shape[1] % 16 == 0:
        yield "result", mma_result(shape, (warps, 1))
        yield "factor", mma_operand("a", F16, shape, (warps, 1))


def random_layouts(seed):
    """Two layouts of a tile by bits in any order, of which threads and warps may hold the same."""
    chance = random.Random(seed)
    rows, bits = chance.randrange(2, 6), chance.randrange(7, 11)
    units = [(1 << i, 0) for i in range(rows)] + [(0, 1 << i) for i in range(bits - rows)]
    layouts = []
    for _ in range(2):
        order = chance.sample(units, len(units))
        for i in range(1, len(order)):
            if chance.random() < 0.25:
                a, b = order[i], order[i - 1]
                order[i] = a[0] ^ b[0], a[1] ^ b[1]
        for _ in range(chance.randrange(3)):
            order.insert(chance.randrange(len(order)), (0, 0))
        lanes, warps, registers = order[:5], order[5:7], order[7:]
        own = tuple(r for r in registers if any(r))
        layouts.append(layout(2, register=own, lane=tuple(lanes), warp=tuple(warps)))
    return (1 << rows, 1 << bits - rows), *layouts


def cases():
    for shape in SHAPES:
        for warps in (1, 4) if shape[0] < 100 else (4,):
            sources = dict(kernel_layouts(shape, warps))
            for a, source in sources.items():
                for b, target in sources.items():
                    if source != target:
                        kind = list(ELEMENTS)[len(a + b + str(shape)) % 5]
                        yield f"{shape} {kind} {warps} {a} {b}", (shape, source, target)
    for seed in range(64):
        yield f"drawn {list(ELEMENTS)[seed % 5]} {seed}", random_layouts(seed)


CASES = dict(cases())


def conversion_costs(shape, element, source, target):
    """The costs of one conversion, whose elements all arrive."""
    b, counts = Builder(), Counts()
    with b.kernel("k"):
        pass
    module = b.module()
    op = ConvertLayout(Value(Tile(element, shape, source)), layout=target)
    warps, need = source.size("warp"), conversion_bytes(op.source.type, target)
    thread = counting(counts)(32 * warps, (0, 0, 0), (1, 1, 1), SimtMemory(need))
    thread.op = op
    function = module.functions["k"]
    lowering = Lowering(module, function, target_named("sm_90"), thread,
                        AccessWidths(function), {op: 0}, {}, warps)  # fmt: skip
    fragment = list(numbered_tile(thread, source, shape, element))
    counts.by_op.clear()
    converted = convert(lowering, op, fragment, op.source.type, target)
    expected = list(numbered_tile(thread, target, shape, element))
    for x, y, number in zip(converted, expected, numbers(target, shape), strict=True):
        assert x.array[number >= 0].tobytes() == y.array[number >= 0].tobytes()
    tally = counts.of(op)
    instructions = sum(tally.instructions.values())
    return [need, instructions, tally.shuffles, tally.shared, tally.wavefronts, tally.barriers]


@pytest.mark.parametrize("every", few_or_all(4, 1))
def test_no_conversion_costs_more_than_it_did(request, every):
    """By default of every fourth conversion."""
    bless, measured = request.config.getoption("bless"), {}
    for name in list(CASES)[:: 1 if bless else every]:
        shape, source, target = CASES[name]
        element = next(ELEMENTS[word] for word in name.split() if word in ELEMENTS)
        if source.size("warp") == target.size("warp"):
            measured[name] = conversion_costs(shape, element, source, target)
    assert len(measured) > 100 // every
    if bless:
        lines = (f'"{name}": {costs}' for name, costs in sorted(measured.items()))
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    kept = json.loads(FILE.read_text())
    worse = [f"{name}: {kept[name]} -> {costs}" for name, costs in measured.items()
             if any(a > b for a, b in zip(costs, kept[name], strict=True))]  # fmt: skip
    assert not worse, "\n".join(worse)
