"""A matmul whose result is operand A of another keeps it in registers."""

import runpy
from pathlib import Path

import pytest

from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.target import target
from tileir.builder import BF16, F16, F32, Builder, arg, pointer

EXAMPLES = Path(__file__).parents[2] / "examples"


def attention(rows, columns, width):
    return runpy.run_path(str(EXAMPLES / "flash_attention.py"))["flash_attention"](
        rows, columns, width
    )


def conversions_between_dots(module, warps):
    """Conversions between a dot and another that takes its result as left factor."""
    done = run_pipeline(module, target("sm_90"), Options(num_warps=warps), None)
    function = next(iter(done.stages["layouts"].functions.values()))
    producers = {v: op for op in function.ops for v in op.results}

    def between(value):
        """Conversions on the ways from dots to `value`; None where there are no ways."""
        op = producers.get(value)
        if op is None or op.mnemonic == "dot":
            return None if op is None else []
        if not op.elementwise and op.mnemonic != "gpu.convert_layout":
            return None
        ways = [way for way in map(between, op.inputs) if way is not None]
        own = [op] if op.mnemonic == "gpu.convert_layout" else []
        return own + [x for way in ways for x in way] if ways else None

    edges = [
        way for op in function.ops if op.mnemonic == "dot" and (way := between(op.a)) is not None
    ]
    assert edges, "no dot takes another's result"
    return [op for way in edges for op in way]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("columns, width", [(64, 64), (32, 128), (128, 32)])
@pytest.mark.parametrize("tall", [1, 2])
def test_weights_of_attention_are_renamed(warps, columns, width, tall):
    for op in conversions_between_dots(attention(16 * tall * warps, columns, width), warps):
        assert isinstance(conversion(op.source.type, op.layout), tuple)


@pytest.mark.parametrize("warps", [1, 2, 4])
@pytest.mark.parametrize("element", [F16, BF16])
def test_a_chain_of_three_dots_is_renamed(element, warps):
    b = Builder()
    kinds = {name: arg(pointer(element), aligned=16) for name in "xyz"}
    with b.kernel("three", **kinds, out=pointer(F32)) as (x, y, z, out):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        inner = ((x + at).load() @ (y + at).load()).to(element)
        (out + at).store(inner.dot((z + at).load(), b.full((64, 64), 0.0, F32)))
    for op in conversions_between_dots(b.module(), warps):
        assert isinstance(conversion(op.source.type, op.layout), tuple)


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_chained_dot_continues_the_accumulator_of_another(in_loop):
    """(x y) z + y z, in a loop or not: the second matmul is computed where the first one adds to
    it, so that no accumulator moves between threads."""
    b = Builder()
    kinds = {name: arg(pointer(BF16), aligned=16) for name in "xyz"}
    with b.kernel("continued", **kinds, out=pointer(F32)) as (x, y, z, out):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        total = b.var(b.full((64, 64), 0.0, F32))

        def add():
            left, right = (y + at).load(), (z + at).load()
            first = left.dot(right, total.get())
            inner = ((x + at).load() @ left).to(BF16)
            total.set(inner.dot(right, first))

        if in_loop:
            with b.for_(0, 3, stages=1):
                add()
        else:
            add()
        (out + at).store(total.get())
    done = run_pipeline(b.module(), target("sm_90"), Options(num_warps=2), None)
    function = next(iter(done.stages["layouts"].functions.values()))
    dots = [op for op in function.ops if op.mnemonic == "dot"]
    assert len(dots) >= 3
    producers = {op.results[0]: op for op in function.ops if op.results}
    for op in dots:
        producer = producers.get(op.c)
        assert producer is None or producer.mnemonic != "gpu.convert_layout"
