"""What programs say: the threads' lines, the CPU's and the interpreter's values, of every type."""

import re
from typing import Any

import numpy as np
import pytest

import tileir.backend
from tileir.backend.cpu.executor import CpuExecutor
from tileir.backend.executors import SimtExecutor
from tileir.builder import I32, Builder, pointer
from tileir.errors import LaunchError
from tileir.ir import Module
from tileir.textual import parse
from tileir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, I1, I4, I8, I16, I64, Element

NUMBERS: dict[Element, list[str]] = {
    I1: ["1", "0"], I4: ["-8", "7"], I8: ["-128", "127"], I16: ["-32768", "32767"],
    I32: ["-2147483648", "2147483647"], I64: ["-9223372036854775808", "9223372036854775807"],
    F8E4M3: ["-448.0", "0.001953125"], F8E5M2: ["-57344.0", "0.25"], F16: ["-65504.0", "0.5"],
    BF16: ["-2.0", "0.00390625"], F32: ["-1.5", "0.100000001"], F64: ["-1.5", "0.125"],
}  # fmt: skip


def output_of(executor: Any, module: Module, grid: int, arguments: list[Any]) -> list[str]:
    output: list[str] = []
    executor.launch(module, None, grid, arguments, output=output)
    return output


def values(lines: list[str]) -> list[float]:
    return sorted(float(line.split()[-1]) for line in lines)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("element", list(NUMBERS), ids=str)
def test_every_type_is_shown_as_the_number_it_is(element: Element) -> None:
    low, high = NUMBERS[element]
    if element is I1:
        low, high = "true", "false"
    text = f"""tir 1.0
define kernel void @k(i32 %n) {{
entry:
  %lanes = make_range i32<2>
  %one = splat i32<2> %n
  %first, _ = icmp (i1<2>, i1<2>) %lanes, %one {{predicate = slt}}
  %v = select {element}<2> %first, {low}, {high}
  print %v {{prefix = "v"}}
  ret
}}
"""
    module = parse(text)
    expected = sorted(map(float, NUMBERS[element]))
    for executor in (SimtExecutor(), CpuExecutor()):
        lines = output_of(executor, module, 1, [1])
        assert len(lines) == 2 and np.allclose(values(lines), expected, rtol=1e-8)
    assert tileir.backend.compile(module, "sm_80").cubin


def printing_loop() -> Module:
    b = Builder()
    with b.kernel("k", n=I32) as (n,), b.for_(0, n, 1) as i:
        b.print(i + b.program_id(axis=0) * 100, prefix="round")
    return b.module()


def test_lines_come_iteration_by_iteration_and_instance_by_instance() -> None:
    expected = [f"round {100 * p + i}" for p in range(9) for i in range(3)]
    for _ in range(3):
        lines = output_of(CpuExecutor(), printing_loop(), 9, [3])
        assert [re.sub(r".*: ", "", line) for line in lines] == expected
    assert [
        line.rsplit(": ")[-1] for line in output_of(SimtExecutor(), printing_loop(), 9, [3])
    ] == expected
    assert "vprintf" in tileir.backend.compile(printing_loop(), "sm_90").ptx


def test_a_failure_names_the_first_instance_that_failed() -> None:
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        b.assert_((x + b.program_id(axis=0)).load() < 5, message="too large")
    data = np.int32([1, 2, 7, 3, 9, 9])
    for _ in range(3):
        with pytest.raises(LaunchError, match=r"\(2, 0, 0\) .*test_prints.py:\d+: too large"):
            CpuExecutor().launch(b.module(), None, 6, [data])
