"""Pictures of memory: what they show is what is counted."""

from collections import Counter
from itertools import combinations, product
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.tools.pictures import groups_labelled, module, root, shapes, texts
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.bank_conflicts import conflicts, wavefronts
from tileir.backend.shared_memory.conversion_staging import staging
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.simt.counts import Counts
from tileir.layout_tilings import blocked_layout
from tileir.testing.kernels import matmul
from tileir.tools.inputs import draw, recipe
from tileir.tools.view import PICTURES, draw_picture
from tileir.tools.view.access import spans
from tileir.tools.view.banks import wavefront_rows
from tileir.tools.view.input import Subject
from tileir.tools.view.lane_orders import AffineAddresses, affine, transposed_accesses
from tileir.tools.view.lifetimes import allocations, block_spans
from tileir.tools.view.naming import count_text
from tileir.tools.view.swizzles import element_at, unswizzled_offset
from tileir.tools.view.tracing import TracedAccess, Usage, accesses_by_op, run_and_trace, usage
from tileir.types import F32

# Addresses ----------------------------------------------------------------------------------------


def test_spans_of_lines_are_the_bytes_accessed():
    addresses = [1000 + 12 * i if i % 3 else None for i in range(32)]
    result = spans(addresses, 8)
    covered = {
        (number * 128 + byte, lane)
        for number, spans_of_line in result.items()
        for span in spans_of_line
        for byte in range(span.start, span.end)
        for lane in span.lanes
    }
    expected = {
        (a + i, lane) for lane, a in enumerate(addresses) if a is not None for i in range(8)
    }
    assert covered == expected


def test_sectors_shown_are_sectors_counted():
    """A row of 931 elements of 1024: the picture's totals are the machine's."""
    words = [t for t in texts(root("access", "softmax")) if "over the whole instance" in t]
    assert len(words) == 2
    assert all("30 accesses, 117 sectors; 117 are enough" in w for w in words)


def test_lanes_along_the_other_dimension_touch_what_the_layout_says():
    """Rows of 64 floats, lanes down a column: a sector each, 32 lines."""
    subject = Subject(module("transpose"))
    for op, accesses in accesses_by_op(run_and_trace(subject)[0], False).items():
        result = transposed_accesses(op, accesses)
        assert result.dim == 0
        first = result.addresses[0]
        assert result.addresses == tuple(first + 256 * lane for lane in range(32))
        assert usage(result.addresses, result.size) == Usage(32, 4, 32)


def test_addresses_that_are_no_affine_function_are_not_turned():
    layout = blocked_layout((8, 16), (1, 0), 1, 1)
    at = [layout.coordinate(r, lane) for r in range(4) for lane in range(32)]
    expected = AffineAddresses(1 << 21, (1024, 4))
    straight = np.array([expected.at(x) for x in at]).reshape(4, 32)
    active = np.ones(32, bool)
    assert (
        affine(layout, [TracedAccess("load", False, 4, a, active) for a in straight], 4) == expected
    )
    bent = straight + 4 * np.array([[x[0] * x[1] for x in at]]).reshape(4, 32)
    assert affine(layout, [TracedAccess("load", False, 4, a, active) for a in bent], 4) is None


# Banks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("stride", [0, 1, 3, 32, 33])
def test_wavefronts_shown_are_wavefronts_counted(size, stride):
    offsets = [i * stride * size if i % 7 else None for i in range(32)]
    rows = wavefront_rows(offsets, size)
    assert len(rows) == wavefronts(offsets, size)
    assert sum(row.lost for row in rows) == conflicts(offsets, size)
    shown = Counter(lane for row in rows for word in row.words for lane in word.lanes)
    words = max(1, size // 4)
    assert all(shown[i] == (0 if o is None else words) for i, o in enumerate(offsets))
    assert all(len({w.bank for w in row.words}) == len(row.words) for row in rows)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "ops"), [("transpose", 1), ("bytes", 1), ("softmax", 2)])
def test_conflicts_shown_are_conflicts_counted(name, ops):
    """Every op runs once: what is shown of one run is what the machine counts in all."""
    plan, counts = recipe(module(name)), Counts()
    arguments = draw(plan, 0)
    SimtExecutor().launch(module(name), None, [1], arguments, counts=counts)
    expected = [
        f"all warps, once: {count_text(t.shared, 'access')}, "
        f"{count_text(t.wavefronts, 'wavefront')}, {t.conflicts} of them for conflicts"
        for t in counts.by_op.values()
        if t.shared
    ]
    shown = [t for t in texts(root("banks", name)) if t.startswith("all warps, once")]
    assert shown == expected and len(expected) == ops


def test_what_swizzling_saves_is_shown():
    """A transpose of 64 x 64 floats written by columns conflicts in a quarter of the banks."""
    words = texts(root("banks", "transpose"))
    (plain,) = [t for t in words if t.startswith("without swizzling and padding")]
    (swizzled,) = [t for t in words if t.startswith("all warps, once")]
    assert "0 of them for conflicts" in swizzled and "1280 of them for conflicts" in plain


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(64, 64), (32, 128), (48, 40), (8, 6, 16)])
def test_offsets_lead_back_to_elements(shape):
    last, *others = reversed(range(len(shape)))
    source = blocked_layout(shape, (last, *others), 4, 4)
    target = blocked_layout(shape, (*others, last), 4, 4)
    staged = staging(source, target, shape, 4)
    for at in product(*map(range, shape)):
        assert element_at(staged, staged.offset(at) + 3) == (at, 3)


@pytest.mark.parametrize("swizzle", [3, 2, 0])
def test_packed_offsets_are_row_major(swizzle):
    place = SharedTile(F32, (8, 32), 1, swizzle, 64)
    for row, chunk in product(range(8), range(8)):
        phase = row >> (3 - swizzle) & ((1 << swizzle) - 1)
        swizzled = 64 + row * place.pitch + (chunk ^ phase) * 16
        assert unswizzled_offset(place, swizzled) == 64 + row * 128 + chunk * 16


# Shared memory over time --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "matmul", "transpose", "mma"])
def test_allocations_are_drawn_where_they_are_and_never_two_at_one_place_and_time(name):
    subject = Subject(module(name))
    plan = subject.lowered_kernel.memory
    result = allocations(subject.laid_out, plan)
    assert {(r.op, r.offset, r.size) for r in result} == {
        (op, at, plan.sizes[op]) for op, at in plan.offsets.items()
    }
    for a, b in combinations(result, 2):
        together = any(b.at(op) for first, last in a.spans for op in range(first, last + 1))
        disjoint = a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
        assert disjoint or not together
    (memory,) = groups_labelled(root("shared", name), "memory")
    heights = sorted(float(bar.get("height")) for bar in shapes(memory, "cell"))
    expected = sorted(r.size * 300 / plan.size for r in result for _ in r.spans)
    assert heights == pytest.approx(expected, abs=0.06)


def test_a_buffer_that_a_loop_reads_lasts_to_its_end():
    subject = Subject(module("matmul"))
    end = max(s.end for s in block_spans(subject.laid_out) if s.depth)
    ranges = allocations(subject.laid_out, subject.lowered_kernel.memory)
    buffers = [a for a in ranges if len(a.touched) > 2]
    assert buffers and all(buffer.at(end - 1) for buffer in buffers)


def test_a_kernel_without_shared_memory_says_so():
    assert any("needs no shared memory" in t for t in texts(root("shared", "add")))


# Warp-specialized kernels -------------------------------------------------------------------------


def specialized_matmul(**metadata):
    """A matmul of 128 by 128 by 64, whose loads and stores are TMA's and whose dots are wgmma."""
    inputs = {
        "run.grid": (4,), "run.x": "f16[128, 64] normal", "run.y": "f16[64, 128] normal",
        "run.z": "f16[128, 128] zeros", "run.m": "128", "run.n": "128", "run.k": "64",
    }  # fmt: skip
    return matmul(64, 64, 64).evolve(metadata={**inputs, **metadata})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("picture", sorted(PICTURES))
def test_every_picture_of_a_warp_specialized_kernel(picture):
    subject = Subject(specialized_matmul(), target="sm_90a", program=(1,))
    if picture == "passes":
        assert "stage pipelined" in draw_picture(picture, subject)
        return
    words = " ".join(filter(None, texts(ElementTree.fromstring(draw_picture(picture, subject)))))
    shown = {
        "access": "no thread of this kernel accesses global memory; "
        "gpu.tma_load and gpu.tma_store do",
        "banks": "gpu.local_store", "owners": "64x64", "warps": "gpu.wgmma",
        "shared": "mbarrier_alloc", "cfg": "entry", "defuse": "dot",
    }  # fmt: skip
    assert shown[picture] in words


def test_accesses_are_those_of_the_kernel_that_the_arguments_allow():
    """Rows of 65 elements are no rows of a tensor map."""
    metadata = {"run.x": "f16[128, 65] normal", "run.y": "f16[65, 127] normal"}
    sizes = {"run.z": "f16[128, 127] zeros", "run.n": "127", "run.k": "65"}
    subject = Subject(specialized_matmul(**metadata, **sizes), target="sm_90a")
    assert any(op.mnemonic == "gpu.tma_load" for f in subject.laid_out_functions for op in f.ops)
    words = texts(ElementTree.fromstring(draw_picture("access", subject)))
    assert any("load f16<64, 64>" in line for line in words)
