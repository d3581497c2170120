"""The table of functions in docs/explanation/numerics.md: instructions by compiling each, errors
from `benchmarks/results/functions.json`, ratios of kernels from `families.json`."""

import json
import re
from pathlib import Path

import pytest

from tileir.backend import compile as compile_kernel
from tileir.builder import F32, F64, Builder, arg, pointer
from tileir.op import lookup

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/numerics.md").read_text()
RESULTS = {
    name: json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())
    for name in ("functions", "families")
}
INSTRUCTION = re.compile(r"^\t(?:@!?%p\d+ )?[a-z][\w.]*\s.*;$", re.MULTILINE)


def rows(section):
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in row] for row in cells]


FUNCTIONS = rows("Functions of float32")


def ptx_of(function, element=F32):
    """Of a kernel for sm_90a, one element per thread."""
    b = Builder()
    buffers = {n: arg(pointer(element), aligned=16) for n in "xy"}
    with b.kernel("k", **buffers) as (x, y):
        i = b.arange(128)
        (y + i).store(getattr(b, function)((x + i).load()))
    return compile_kernel(b.module(), target="sm_90a", options={"num_warps": 4}).ptx


def instructions(name):
    """Besides those of a copy."""

    def count(function):
        return len(INSTRUCTION.findall(ptx_of(function)))

    return count(name) - count("fabs") + 1


@pytest.mark.parametrize("function", ["log", "log2", "log10", "log1p"])
def test_logarithms_leave_the_unit_for_special_functions_to_others(function):
    assert ".approx" not in ptx_of(function)


@pytest.mark.parametrize(
    ("function", "most"),
    [("exp", 48), ("exp2", 47), ("expm1", 66), ("log", 62), ("log2", 68), ("erf", 101),
     ("tanh", 76), ("sinh", 116), ("cosh", 61)],
)  # fmt: skip
def test_functions_of_f64_have_no_division_and_no_conversion(function, most):
    ptx = ptx_of(function, F64)
    assert "div.rn" not in ptx and "cvt.rni" not in ptx and "cvt.rn.f64.s64" not in ptx
    assert len(INSTRUCTION.findall(ptx)) <= most


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row[0])
def test_instructions_and_errors_of_a_function_are_as_stated(row):
    name, bound, length, stated_error, other = row
    assert lookup(name).numerics.ulp == float(bound)
    assert int(length) == instructions(name)
    exact = {"exp": "exact exp", "exp2": "exact exp2"}.get(name, name)
    measured = RESULTS["functions"]["rows"].get(exact)
    if measured is None:
        assert stated_error == other == "-"
    else:
        assert stated_error == f"{measured['tileir']['ulp']:.2f}" and float(stated_error) <= float(
            bound
        )
        assert other == f"{measured['triton']['ulp']:.2f}"


def test_measurements_name_their_card():
    for results in RESULTS.values():
        assert results["device"] in PAGE and results["commit"]


def test_ratios_of_kernels_are_those_measured():
    measured = RESULTS["families"]["rows"]
    stated = {row[0]: row[1:] for row in rows("Kernels of reductions, scans and functions")}
    assert set(stated) == set(measured)
    for name, (ours, theirs, ratio) in stated.items():
        row = measured[name]
        assert ours == f"{row['tileir']['us']:.1f}" and theirs == f"{row['triton']['us']:.1f}"
        assert ratio == f"{row['ratio']:.2f}"
