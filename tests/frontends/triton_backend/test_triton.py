"""The stock Triton of this environment: kernels for a GPU compiled by tileir without one, and
kernels that run on the CPU."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed: .ci/run installs it, or pip install triton",
)
BENCHMARKS = HERE.parents[2] / "benchmarks"


def run(script, tmp_path, *arguments, status=0, **environment):
    """What a program of this folder writes on its standard output, in a process of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TILEIR_", "TRITON_"))}
    path = os.pathsep.join(filter(None, [str(HERE), str(BENCHMARKS), kept.get("PYTHONPATH")]))
    requested_environment = {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": path, **environment}
    command = [sys.executable, *script, *arguments]
    done = subprocess.run(
        command, env={**kept, **requested_environment}, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def start(*words):
    """A program, where this Triton finds no entry points by itself."""
    import triton

    old = triton.__version__.startswith("3.3.")
    return ["-m", "tileir.frontends.triton_backend", *words] if old else list(words)


def test_importing_triton_loads_nothing_of_tileir(tmp_path):
    code = (
        "import triton, sys; print(sorted(m for m in sys.modules if m.split('.')[0] == 'tileir'))"
    )
    for enabled in ("0", "1", "strict"):
        assert run(["-c", code], tmp_path, TILEIR_IN_TRITON=enabled).strip() == "[]"


def test_kernels_are_compiled_for_a_gpu(tmp_path):
    script = start(str(HERE / "program_gpu.py"))
    first, second = (
        json.loads(run(script, tmp_path, TILEIR_IN_TRITON="strict").splitlines()[-1])
        for _ in range(2)
    )
    assert {k["compiled_by"].split()[0] for k in first["kernels"]} == {"tileir"}
    assert all(k["elf"] and k["entry"] for k in first["kernels"])
    packed = [[4, 1]] * 3 + [[8, 1]]  # warps of a block and blocks of a cluster, as launched
    described = [[4, 1], [8, 1]] if first["descriptor"] else []
    assert [k["packed"] for k in first["kernels"]] == packed + described
    if described:
        assert first["taken"] == 2 * first["descriptor"]
    assert not any(r["cached"] for r in first["report"])
    assert all(r["cached"] for r in second["report"])
    assert len(second["report"]) == len(first["kernels"])


@pytest.mark.parametrize(
    ("environment", "driver"),
    [
        ({}, "gpu"),
        ({"TILEIR_TRITON_CPU": "off"}, "gpu"),
        ({"TILEIR_TRITON_CPU": "native"}, "cpu"),
        ({"TILEIR_TRITON_CPU": "simt"}, "cpu"),
        ({"TRITON_DEFAULT_BACKEND": "cpu"}, "cpu"),
    ],
)
def test_the_environment_selects_the_driver_on_a_machine_with_a_gpu(tmp_path, environment, driver):
    """Before 3.7, Triton raises an error where two drivers are active."""
    output = run(start(str(HERE / "program_drivers.py")), tmp_path, **environment)
    assert output.strip() == driver


def test_kernels_are_tritons_where_tileir_is_not_asked_for(tmp_path):
    record = json.loads(run(start(str(HERE / "program_gpu.py")), tmp_path).splitlines()[-1])
    assert {k["compiled_by"] for k in record["kernels"]} == {""}
    assert record["report"] == []


@pytest.mark.parametrize(
    ("way", "kernels"),
    [
        ("sm_90a", "attention,layer_norm_backward"),
        ("native", "add,grouped_matmul,layer_norm_backward"),
        ("interpreter", "dropout,matmul"),
    ],
)
def test_kernels_of_the_version_matrix_are_right(tmp_path, way, kernels):
    """Without torch: tensors by address."""
    results = tmp_path / "results.json"
    mode = "native" if way == "sm_90a" else way
    script = [str(BENCHMARKS / "triton_versions_worker.py"), way, str(results), kernels]
    run(script, tmp_path, TILEIR_TRITON_CPU=mode)
    assert json.loads(results.read_text()) == dict.fromkeys(sorted(kernels.split(",")), "right")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("mode", ["native", "interpreter", "simt"])
def test_kernels_run_on_the_cpu(tmp_path, mode):
    script = start(str(HERE / "program_cpu.py"))
    output = run(script, tmp_path, TILEIR_TRITON_CPU=mode)
    assert output.splitlines()[-1] == "all right"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_planted_mistakes_are_found_at_their_lines(tmp_path):
    program, report = HERE / "program_wrong.py", tmp_path / "found.json"
    lines = program.read_text().splitlines()
    planted = {
        (number, line.rpartition("# wrong: ")[2])
        for number, line in enumerate(lines, start=1)
        if "  # wrong: " in line
    }
    words = ["-m", "tileir.tools.main", "check-triton", "--json", str(report), "--", sys.executable]
    run([*words, *start(str(program))], tmp_path, status=1)
    places = {(f["place"].split(":")[-2], f["code"]) for f in json.loads(report.read_text())}
    assert {(int(line), code) for line, code in places} == planted
    assert len(planted) == 24
