"""What every pass promises besides meaning: a second run changes nothing, two processes agree on
every byte, programs do not grow without bound, and algebra is exact where numbers are."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.sizes import few_or_all
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passes import PIPELINE, fold
from tileir.passes.laws.floats import WHOLE
from tileir.passes.laws.law import Law
from tileir.passmanager import run
from tileir.testing import sample
from tileir.textual import parse, print_module
from tileir.types import Scalar, element_of

PASSES = sorted(
    {*PIPELINE, "fold", "prefetch-loads", "prefetch-loads{num-stages=4}", "licm{max-depth=1}"}
)
PROGRAMS = 60
HERE = Path(__file__).parent


@cache
def modules(stride: int) -> tuple[Module, ...]:
    """Every `stride`th of the generated programs, and of those of the files here."""
    files = sorted(HERE.glob("*/*.tir"))[::stride]
    texts = [path.read_text().partition("; ----- after")[0] for path in files]
    generated = (sample(seed, 30).module for seed in range(0, PROGRAMS, stride))
    return (*generated, *map(parse, texts))


@pytest.mark.parametrize("stride", few_or_all(8, 1))
@pytest.mark.parametrize("name", PASSES)
def test_a_second_run_returns_its_argument(name, stride):
    for number, module in enumerate(modules(stride)):
        once = run(module, name).module
        assert run(once, name).module is once, number


def digests(stride: int) -> str:
    """One line per pass: what it made of every `stride`th program and what it remarked."""
    lines = []
    for name in [*PASSES, "default"]:
        digest = hashlib.sha256()
        for module in modules(stride):
            result = run(module, name)
            digest.update(print_module(result.module).encode())
            digest.update("".join(map(str, result.remarks)).encode())
        lines.append(f"{name} {digest.hexdigest()}\n")
    return "".join(lines)


@pytest.mark.parametrize("stride", few_or_all(60, 4))
def test_two_processes_agree_on_every_byte(stride):
    root = HERE.parents[1]
    # The checkout comes last on the path, so that `tileir` is what is installed.
    script = f"import sys; sys.path.append({str(root)!r})\n"
    script += "from tests.passes.test_promises import digests\n"
    script += f"print(digests({stride}), end='')"
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-P", "-c", script]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=root, check=True)
        outputs.append(done.stdout.decode())
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == len(PASSES) + 1


def size(module: Module) -> int:
    """Ops, and characters of labels: both are what later passes work on."""
    functions = module.functions.values()
    labels = sum(len(label) for f in functions for label in f.blocks)
    return labels + sum(1 for f in functions for _ in f.ops)


@pytest.mark.parametrize("stride", few_or_all(16, 4))
@pytest.mark.parametrize(
    "pipeline", ["default", "default,prefetch-loads", "licm,prefetch-loads{num-stages=3}"]
)
def test_programs_stop_growing(pipeline, stride):
    for number, module in enumerate(modules(stride)):
        once = run(module, pipeline).module
        twice = run(once, pipeline).module
        assert size(run(twice, pipeline).module) <= size(twice), number


def test_labels_do_not_grow_with_the_calls_of_a_block():
    calls = "\n".join(f"  %v{i + 1} = call i32 @pick, %v{i}" for i in range(100))
    text = f"""tir 1.0

define private i32 @pick(i32 %x) {{
entry:
  %neg, _ = icmp (i1, i1) %x, 0 {{predicate = slt}}
  cond_br %neg, low, high
low:
  ret i32 0
high:
  ret %x
}}

define kernel void @f(i32* %p, i32 %v0) {{
entry:
{calls}
  store %p, %v100
  ret
}}
"""
    labels = run(parse(text), "inline").module.functions["f"].blocks
    assert len(labels) == 401
    assert max(map(len, labels)) <= 20


def residues(program):
    """What a program leaves, with floats as residues modulo a prime."""
    arrays = program.arguments()
    interpret(program.module, program.kernel, program.grid, arrays, numbers="ring")
    return {n: arrays[n].tobytes() for n, buffer in program.buffers.items() if buffer.output}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("programs", few_or_all(5, PROGRAMS))
@pytest.mark.parametrize("name", [name for name in PASSES if name != "lower-predicates"])
def test_algebra_is_exact_where_numbers_are(name, programs, monkeypatch):
    """Folding literals rounds, and whole numbers are no notion of residues: both are left out. So
    is `lower-predicates`, whose identities of reductions are infinities and NaN."""
    foldable, call, whole = fold._foldable, Law.__call__, {law.text for law in WHOLE}
    monkeypatch.setattr(
        Law, "__call__", lambda law, op, walk: None if law.text in whole else call(law, op, walk)
    )
    monkeypatch.setattr(fold, "_foldable", lambda op: foldable(op) and not _floats(op))
    fired = 0
    for seed in range(programs):
        program = sample(seed, 30)
        changed = run(program.module, name).module
        if changed is not program.module:
            fired += 1
            assert residues(program.with_module(changed)) == residues(program), seed
    assert fired >= programs // 20


def _floats(op):
    elements = [element_of(v.type) for v in (*op.inputs, *op.results)]
    return any(isinstance(e, Scalar) and e.is_float for e in elements)
