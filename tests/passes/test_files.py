"""Every `.tir` file in a folder here: what the passes make of its program.

    ; pipeline: licm{max-depth=1}
    tir 1.0
    ...
    ; ----- after
    the module after the pipeline as it prints, or `; unchanged`; then one line per remark

A function that prints as before has to be the object it was, and every function that has a
meaning on some numbers, and is launched as before, keeps it. `pytest --bless tests/passes` writes
what the passes make of the programs into the files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.passes.callers import outcome
from tests.sizes import for_each
from tileir.ir import Function, Module
from tileir.passes import PIPELINE
from tileir.passes.laws.law import Law
from tileir.passes.laws.shapes import SHAPES
from tileir.passmanager import Run, run
from tileir.textual import parse, print_module

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.tir"))
AFTER = "; ----- after\n"
SEEDS, FEW = 6, 2
"""Numbers that a program is run on: all of them by slow tests, few by default."""
FOLDERS = sorted({path.parent.name for path in FILES})
GUARDED = "TIR0554"
"""What a pass assumes of parameters, which the launcher looks at, does not hold."""
PASSES = sorted({*PIPELINE, "fold", "prefetch-loads"})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_file(path: Path, request: pytest.FixtureRequest) -> None:
    text, _, expected = path.read_text().partition(AFTER)
    pipeline, module = _read(path)
    result = run(module, pipeline)
    for name, old in module.functions.items():
        function = result.module.functions.get(name, old)
        if function is not old:
            assert _text(function) != _text(old), f"@{name} was rebuilt"
            _same_meaning(module, result.module, name, range(FEW))
    printed = expected_text(result, unchanged=result.module is module)
    if request.config.getoption("--bless"):
        path.write_text(text + AFTER + printed)
    else:
        assert printed == expected


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_meaning_on_more_numbers(folder: str) -> None:
    for path in (path for path in FILES if path.parent.name == folder):
        pipeline, module = _read(path)
        result = run(module, pipeline)
        for name, old in module.functions.items():
            if result.module.functions.get(name, old) is not old:
                _same_meaning(module, result.module, name, range(FEW, SEEDS))


def _read(path: Path) -> tuple[str, Module]:
    """The pipeline that the first line names, and the program."""
    text = path.read_text().partition(AFTER)[0]
    pipeline = re.match(r"; pipeline: (.*)\n", text)
    assert pipeline, "the first line names the pipeline"
    return pipeline[1], parse(text.replace(pipeline[0], "\n", 1), path.name)


def _text(function: Function) -> str:
    return print_module(Module({function.name: function}))


def _same_meaning(before: Module, after: Module, name: str, seeds: range) -> None:
    old, new = before.functions[name], after.functions[name]
    if old.results or len(old.parameters) != len(new.parameters):
        return
    for seed in seeds:
        expected = outcome(before, name, seed)
        actual = None if isinstance(expected, str) else outcome(after, name, seed)
        if actual not in (None, GUARDED):
            assert actual == expected, f"@{name} on the numbers of seed {seed}"


def expected_text(result: Run, *, unchanged: bool) -> str:
    """The text expected for `result`."""
    text = "; unchanged\n" if unchanged else print_module(result.module)
    remarks = [f"; {d.code} at line {d.location and d.location.line}: {d.message}\n"
               for d in result.remarks]  # fmt: skip
    return text + "".join(remarks)


@for_each("name", PASSES)
def test_every_pass_has_programs_that_it_changes_and_that_it_leaves(name: str) -> None:
    texts = [path.read_text() for path in FILES if path.parent.name == name]
    unchanged = [t for t in texts if t.partition(AFTER)[2].startswith("; unchanged")]
    assert len(texts) >= 3, f"{len(texts)} files"
    assert unchanged, "no file that the pass leaves alone"
    assert len(unchanged) < len(texts), "no file that the pass changes"


def test_every_law_of_shapes_has_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: set[str] = set()
    build = Law.build

    def record_law(law: Law, *rest: Any) -> Any:
        result = build(law, *rest)
        if result is not None:
            applied.add(law.text)
        return result

    monkeypatch.setattr(Law, "build", record_law)
    for path in FILES:
        if path.parent.name == "peephole":
            run(parse(path.read_text().partition(AFTER)[0]), "peephole")
    assert {law.text for law in SHAPES} <= applied
