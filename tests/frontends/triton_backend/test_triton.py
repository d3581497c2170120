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
    reason="Triton is not installed: pip install triton, or .ci/run, which does",
)


def run(script, tmp_path, *arguments, **environment):
    """What a program of this folder writes on its standard output, in a process of its own."""
    asked = {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(HERE), **environment}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TILEIR_", "TRITON_"))}
    command = [sys.executable, *script, *arguments]
    done = subprocess.run(command, env={**kept, **asked}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
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
    first, again = (
        json.loads(run(script, tmp_path, TILEIR_IN_TRITON="strict").splitlines()[-1])
        for _ in range(2)
    )
    assert {k["compiled_by"].split()[0] for k in first["kernels"]} == {"tileir"}
    assert all(k["elf"] and k["entry"] for k in first["kernels"])
    assert not any(r["cached"] for r in first["report"])
    assert all(r["cached"] for r in again["report"])
    assert len(again["report"]) == len(first["kernels"])


def test_kernels_are_tritons_where_tileir_is_not_asked_for(tmp_path):
    found = json.loads(run(start(str(HERE / "program_gpu.py")), tmp_path).splitlines()[-1])
    assert {k["compiled_by"] for k in found["kernels"]} == {""}
    assert found["report"] == []


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("mode", ["native", "interpreter", "simt"])
def test_kernels_run_on_the_cpu(tmp_path, mode):
    script = start(str(HERE / "program_cpu.py"))
    output = run(script, tmp_path, TILEIR_TRITON_CPU=mode)
    assert output.splitlines()[-1] == "all right"
