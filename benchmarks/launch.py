"""Benchmark of the host time of a launch: the driver's minimum, tileir and Triton, in one run."""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launch_kernels import OURS, TRITON, import_source

from tileir.backend.nvptx.llvm_codegen import llvm_binding
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.dispatch import BoundCall, Dispatcher, RepeatableLaunch
from tileir.backend.runtime.frontend_calls import FrontendKernels

CALLS = 400
KERNELS = """
@jit
def k5(x, y, z, n, m, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < m), mask=at < n)


@jit
def k19(a, b, c, d, e, f, g, n, m, k, s0, s1, s2, s3, s4, s5, s6, s7, s8, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    i = at * s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8
    value = tl.load(a + at, mask=i < n) + tl.load(b + at, mask=i < m) + tl.load(c + at, mask=i < k)
    value += tl.load(d + at, mask=i < n) + tl.load(e + at, mask=i < n)
    tl.store(g + at, value + tl.load(f + at, mask=i < n), mask=i < n)
"""
NUMBERS = {"k5": (3, (100, 90)), "k19": (7, (100, 90, 80, 3, 5, 7, 9, 11, 13, 15, 17, 19))}
LOOP = """
define i64 @loop(ptr %launch, i64 %count, ptr %function, ptr %stream, ptr %pointers) {
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %after, %next ]
  %code = call i32 %launch(ptr %function, i32 1, i32 1, i32 1, i32 128, i32 1, i32 1, i32 0,
                           ptr %stream, ptr %pointers, ptr null)
  %after = add i64 %i, 1
  %more = icmp slt i64 %after, %count
  br i1 %more, label %next, label %done
done:
  ret i64 0
}
define i32 @nothing(ptr %f, i32 %a, i32 %b, i32 %c, i32 %d, i32 %e, i32 %g, i32 %h, ptr %s, ptr %p,
                    ptr %x) {
  ret i32 0
}
"""
Way = Callable[[int], None]


def times(call: Callable[[], Any]) -> Way:
    """A function that makes a number of calls in a loop."""

    def way(count: int) -> None:
        for _ in range(count):
            call()

    return way


def measure(
    ways: dict[str, Way], repeats: int, wait: Callable[[], None]
) -> dict[str, dict[str, float]]:
    """Microseconds per launch: median and minimum."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(20)
        wait()
    for _ in range(repeats):
        for name in random.sample(sorted(ways), len(ways)):
            wait()
            start = time.perf_counter()
            ways[name](CALLS)
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    wait()
    return {
        name: {"median": statistics.median(t), "least": min(t), "repetitions": len(t)}
        for name, t in times.items()
    }


def machine_code(address: int) -> tuple[Callable[..., Any], int, Any]:
    """A loop of launches in machine code, and a function with the signature of a launch that does
    nothing."""
    binding = llvm_binding()
    parsed = binding.parse_assembly(LOOP)
    parsed.triple = binding.get_process_triple()
    target = binding.Target.from_triple(parsed.triple).create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(parsed, target)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 5)
    loop = kind(engine.get_function_address("loop"))
    nothing = engine.get_function_address("nothing")

    def run(count: int, function: int, pointers: int) -> None:
        loop(address or nothing, count, function, None, pointers)

    return run, nothing, engine


class NullDevice:
    """A device whose launches do nothing."""

    devices, encode_address = 1, 0

    def __init__(self, launch_address: int) -> None:
        self.launch_address = launch_address

    def owner(self, address: int) -> int | None:
        return 0

    def current(self) -> int:
        return 0

    def launch(
        self, kernel: Any, device: int, grid: Any, stream: int, words: Any
    ) -> RepeatableLaunch:
        return RepeatableLaunch(1, kernel.compiled.plan.threads)


class FakeTensor:
    """A tensor for machines without torch."""

    is_cuda, dtype, shape = True, "torch.float32", (128,)

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return (1,)


class FakeKernel:
    """A loaded kernel for machines without a GPU."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled


def here(repeats: int) -> dict[str, Any]:
    """Measure the part in Python, with launches that do nothing."""
    _, nothing, engine = machine_code(0)
    machine, results = NullDevice(nothing), {}
    calls = FrontendKernels(machine, "sm_90a", FakeKernel, Cache(None))
    floor = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3
    )(nothing)
    with tempfile.TemporaryDirectory() as folder:
        ours = import_source(Path(folder), "launch_ours", OURS + KERNELS)
        for name, (pointers, numbers) in NUMBERS.items():
            kernel = getattr(ours, name)
            tensors = [FakeTensor(4096 * (i + 1)) for i in range(pointers)]
            kernel._dispatch = calls.dispatch(kernel._resolve, kernel.arg_names)
            kernel._dispatch.call(1, *tensors, *numbers, BLOCK=128)
            module_ = kernel.warmup(*tensors, *numbers, grid=1, BLOCK=128)
            compiled = calls.cache.compile(module_, "sm_90a")
            direct = make_dispatcher(machine, FakeKernel(compiled))
            values = [*(t.address for t in tensors), *numbers]
            direct.call((1, 1, 1), *values)
            direct.call((1, 1, 1), *values)
            ways = {
                "ctypes, nothing called": times(lambda: floor(1, 1, 1, 1, 128, 1, 1, 0, 0, 0, 0)),
                "prepared": times(bind(direct.call, (1, 1, 1), *values)),
                "tensors": times(lambda k=kernel, t=tensors, n=numbers: k[(1,)](*t, *n, BLOCK=128)),
            }
            results[name] = measure(ways, repeats, lambda: None)
    del engine
    return results


def bind(call: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """The call with its arguments bound, as in a function that a user would write."""
    first, *rest = arguments
    return lambda: call(first, *rest)


def make_dispatcher(machine: Any, kernel: Any) -> Dispatcher:
    """A dispatcher of a compiled kernel on numbers and addresses."""
    plan = kernel.compiled.plan
    names = [p.name for p in plan.parameters]
    return Dispatcher(machine, lambda _, a, __: BoundCall(kernel, plan, a, names), names)


def on_gpu(repeats: int) -> dict[str, Any]:
    """Measure everything in one run."""
    import torch

    from tileir.backend.driver.gpu import gpu
    from tileir.backend.driver.launch import LoadedKernel

    torch.zeros(1, device="cuda")
    machine, results = gpu(), {}
    loop, _, engine = machine_code(machine.launch_address)
    with tempfile.TemporaryDirectory() as folder:
        ours = import_source(Path(folder), "launch_ours", OURS + KERNELS)
        theirs = None
        if _has("triton"):
            theirs = import_source(Path(folder), "launch_triton", TRITON + KERNELS)
        for name, (pointers, numbers) in NUMBERS.items():
            tensors = [torch.zeros(128, device="cuda") for _ in range(pointers)]
            kernel = getattr(ours, name)
            compiled = [kernel[(1,)](*tensors, *numbers, BLOCK=128) for _ in range(3)][-1]
            loaded_kernel = LoadedKernel(compiled)
            values = [*(t.data_ptr() for t in tensors), *numbers]
            launch = loaded_kernel[1]
            launch(*values)
            launch(*values)
            launch = loaded_kernel[1]
            ways = floors(machine, loaded_kernel, values, loop)
            ways["prepared"] = times(bind(launch, *values))
            ways["tensors"] = times(
                lambda k=kernel, t=tensors, n=numbers: k[(1,)](*t, *n, BLOCK=128)
            )
            ways["tensors, grid a function"] = times(
                lambda k=kernel, t=tensors, n=numbers: k[lambda meta: (1,)](*t, *n, BLOCK=128)
            )
            if theirs is not None:
                other = getattr(theirs, name)
                ways["Triton"] = times(
                    lambda k=other, t=tensors, n=numbers: k[(1,)](*t, *n, BLOCK=128)
                )
            ways["torch add_"] = times(lambda t=tensors[0]: t.add_(1.0))
            results[name] = measure(ways, repeats, torch.cuda.synchronize)
    del engine
    return results


def floors(machine: Any, kernel: Any, values: list[int], loop: Any) -> dict[str, Way]:
    """Direct calls of the driver with prepared arguments, by name."""
    from cuda.bindings import driver as cuda

    handle = int(kernel.function(machine.cuda))
    threads = kernel.compiled.plan.threads
    words = (ctypes.c_uint64 * len(values))(*values)
    size = ctypes.sizeof(ctypes.c_uint64)
    start = ctypes.addressof(words)
    pointers = (ctypes.c_void_p * len(values))(*(start + i * size for i in range(len(values))))
    address = ctypes.addressof(pointers)
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3
    )
    entry = kind(machine.launch_address)
    library = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    one = [ctypes.c_void_p(handle), *map(ctypes.c_uint, (1, 1, 1, threads, 1, 1, 0)),
           ctypes.c_void_p(0), pointers, None]  # fmt: skip
    bindings, function = cuda.cuLaunchKernel, cuda.CUfunction(handle)
    keep = (words, pointers)
    return {
        "floor: machine code": lambda count: loop(count, handle, address),
        "floor: ctypes": times(lambda: entry(handle, 1, 1, 1, threads, 1, 1, 0, 0, address, 0)),
        "floor: ctypes, prebuilt arguments": times(lambda: library(*one)),
        "floor: cuda.bindings": times(
            lambda keep=keep: bindings(function, 1, 1, 1, threads, 1, 1, 0, 0, address, 0)
        ),
    }


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def format_table(results: dict[str, Any]) -> str:
    """The table, with the time above the minimum."""
    lines = []
    for name, ways in results.items():
        floor = min((w["median"] for n, w in ways.items() if n.startswith("floor: c")), default=0.0)
        lines.append(f"{name}: microseconds per launch, median (least), above the floor")
        for way, times in sorted(ways.items(), key=lambda item: item[1]["median"]):
            above = f"{times['median'] - floor:+8.2f}" if floor else ""
            lines.append(f"  {way:26}{times['median']:8.2f} ({times['least']:.2f}){above}")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    assert native_launcher.is_supported(), "this Python has no launcher in machine code"
    results = here(options.repeats) if options.here else on_gpu(options.repeats)
    sys.stdout.write(format_table(results) + "\n")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
