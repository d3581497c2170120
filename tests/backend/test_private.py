"""Memory of each thread's own: what the ops mean on every machine, and where they are refused."""

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.layouts.assign_layouts_pass import assign_module_layouts
from tileir.errors import TileirError
from tileir.executor import executor
from tileir.passmanager import run
from tileir.textual import parse, print_module

ON = ("interpreter", "simt", "cpu")


def reversing(count, element="f32", stage="%j", warps=2, first=0):
    """Tiles of `count` elements kept by one loop and read, the last first, by another."""
    settings = f"num_warps = {warps}"
    return f"""tir 1.0
stage "strip_mined"
define kernel void @k({element}* aligned(16) %x, {element}* aligned(16) %y) {{{settings}}} {{
entry:
  %b = gpu.private_alloc private<{element}<{count}>, 5>
  %r = make_range i32<{count}>
  br keep
keep:
  %i = phi i32 [{first}, entry], [%i.next, keep]
  %o = mul i32 %i, {count}
  %os = splat i32<{count}> %o
  %at = add i32<{count}> %r, %os
  %xs = splat {element}*<{count}> %x
  %p = getelementptr {element}*<{count}> %xs, %at
  %v = load {element}<{count}> %p
  gpu.private_store %b, %i, %v
  %i.next = add i32 %i, 1
  %more, _ = icmp (i1, i1) %i.next, 5 {{predicate = slt}}
  cond_br %more, keep, read
read:
  %j = phi i32 [0, keep], [%j.next, read]
  %w = gpu.private_load {element}<{count}> %b, {stage}
  %back = sub i32 4, %j
  %q0 = mul i32 %back, {count}
  %qs = splat i32<{count}> %q0
  %to = add i32<{count}> %r, %qs
  %ys = splat {element}*<{count}> %y
  %q = getelementptr {element}*<{count}> %ys, %to
  store %q, %w
  %j.next = add i32 %j, 1
  %again, _ = icmp (i1, i1) %j.next, 5 {{predicate = slt}}
  cond_br %again, read, done
done:
  ret
}}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("count", [1, 3, 64, 100, 512, 1000])
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "i8", "i1"])
def test_what_was_kept_is_read(on, count, element):
    kinds = {"f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "i1": "?"}
    x = np.random.default_rng(count).integers(0, 2, 5 * count).astype(kinds[element])
    y = np.zeros_like(x)
    executor(on).launch(
        parse(reversing(count, element)), None, (2,) if on == "cpu" else (1,), [x, y]
    )
    np.testing.assert_array_equal(y, x.reshape(5, count)[::-1].reshape(-1))


def test_the_buffer_has_the_layout_of_what_passes_through():
    """No value changes its layout, and accesses are as wide as a thread's part allows."""
    laid_out = assign_module_layouts(parse(reversing(512))).ir
    text = print_module(laid_out)
    assert "convert_layout" not in text
    assert print_module(parse(text)) == text
    ptx = compile_kernel(parse(reversing(512)), "sm_90a").ptx
    assert ptx.count("st.local.v4.b32") == 2 and ptx.count("ld.local.v4.b32") == 2
    assert "bar.sync" not in ptx


def test_threads_wait_for_no_thread():
    compiled = compile_kernel(parse(reversing(512)), "sm_90a")
    text = print_module(compiled.stages["barriers"])
    assert "gpu.barrier" not in text and compiled.metadata.shared == 0
    assert compiled.metadata.stack == 5 * 512 // 64 * 4


@pytest.mark.parametrize("stage", ["5", "-1", "%back5"])
@pytest.mark.parametrize("on", ["interpreter", "simt"])
def test_a_tile_that_is_not_there_is_an_error(on, stage):
    text = reversing(64, stage=stage).replace(
        "  %w = gpu", "  %back5 = add i32 %j, 5\n  %w = gpu" if "%" in stage else "  %w = gpu"
    )
    x = np.zeros(5 * 64, np.float32)
    with pytest.raises((TileirError, AssertionError), match="private"):
        executor(on).launch(parse(text), None, (1,), [x, x.copy()])


def test_what_was_never_written_has_no_value():
    """The interpreter says so where a store would need it, the SIMT simulator at the read."""
    x = np.zeros(5 * 64, np.float32)
    text = reversing(64, first=1)
    with pytest.raises(TileirError, match=r"TIR0504|undefined"):
        executor("interpreter").launch(parse(text), None, (1,), [x, x.copy()])
    with pytest.raises((TileirError, AssertionError), match="not written"):
        executor("simt").launch(parse(text), None, (1,), [x, x.copy()])


def test_to_allocate_twice_is_to_start_over():
    text = reversing(64).replace("  %v = load", "  %b2 = gpu.private_alloc private<f32<64>>\n"
                                 "  %v = load").replace(
        "gpu.private_store %b, %i, %v", "%old = gpu.private_load f32<64> %b2, 0\n"
        "  gpu.private_store %b2, 0, %v\n  gpu.private_store %b, %i, %old")  # fmt: skip
    x = np.zeros(5 * 64, np.float32)
    with pytest.raises((TileirError, AssertionError), match="not written"):
        executor("simt").launch(parse(text), None, (1,), [x, x.copy()])
    with pytest.raises(TileirError):
        executor("interpreter").launch(parse(text), None, (1,), [x, x.copy()])


@pytest.mark.parametrize("cut", ["cse,licm,dce,simplify-cfg,fold,peephole", "licm,cse,dce"])
def test_passes_keep_what_is_kept(cut):
    """A read is neither moved before a write nor merged with one before it."""
    x = np.arange(5 * 64, dtype=np.float32)
    y = np.zeros_like(x)
    executor("interpreter").launch(run(parse(reversing(64)), cut).module, None, (1,), [x, y])
    np.testing.assert_array_equal(y, x.reshape(5, 64)[::-1].reshape(-1))


def test_instances_have_buffers_of_their_own():
    """Spread over several processors, too."""
    text = reversing(64).replace("  br keep\n", "  %id = program_id i32 {axis = 0}\n"
                                 "  %far = mul i32 %id, 320\n"
                                 "  %x1 = getelementptr f32* %x, %far\n"
                                 "  %y1 = getelementptr f32* %y, %far\n  br keep\n")  # fmt: skip
    text = text.replace("splat f32*<64> %x", "splat f32*<64> %x1")
    text = text.replace("splat f32*<64> %y", "splat f32*<64> %y1")
    for on in ON:
        x = np.random.default_rng(0).normal(size=(9, 5, 64)).astype(np.float32)
        y = np.zeros_like(x)
        executor(on).launch(parse(text), None, (9,), [x, y])
        np.testing.assert_array_equal(y, x[:, ::-1])


def test_a_tile_of_many_megabytes_is_no_matter_for_a_cpu():
    count = 1 << 12
    text = reversing(count, warps=1).replace(", 5>", ", 4096>")
    x = np.random.default_rng(1).normal(size=5 * count).astype(np.float32)
    y = np.zeros_like(x)
    executor("cpu").launch(parse(text), None, (1,), [x, y])
    np.testing.assert_array_equal(y, x.reshape(5, count)[::-1].reshape(-1))


def test_more_than_a_thread_may_have_is_refused():
    text = reversing(1024, warps=1).replace(", 5>", ", 5120>")
    with pytest.raises(TileirError, match=r"TIR0708.*524288 bytes of its own, and 655360"):
        compile_kernel(parse(text), "sm_90a")


def test_what_is_kept_at_known_places_stays_in_registers():
    text = """tir 1.0
stage "strip_mined"
define kernel void @k(f32* aligned(16) %x) {num_warps = 1} {
entry:
  %b = gpu.private_alloc private<f32<64>, 2>
  %r = make_range i32<64>
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %r
  %v = load f32<64> %p
  gpu.private_store %b, 0, %v
  %w = fadd f32<64> %v, %v
  gpu.private_store %b, 1, %w
  %first = gpu.private_load f32<64> %b, 0
  %second = gpu.private_load f32<64> %b, 1
  %sum = fadd f32<64> %first, %second
  store %p, %sum
  ret
}
"""
    kernel = compile_kernel(parse(text), "sm_90a")
    assert ".local" not in kernel.ptx and kernel.machine_code.stack == 0
