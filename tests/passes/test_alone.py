"""Every pass alone, after `default` and after what it follows in the compiler, on every example
and every program of the corpus: what a program means stays, and what a pass cannot do is a located
error or a remark that says what to run first."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpus.test_found import arguments, differ
from tileir.errors import Diagnostic, PassError, Severity, TileirError
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import all_passes, run
from tileir.testing.policies import policy_of
from tileir.textual import parse, print_module
from tileir.verify import verify

importlib.import_module("tileir.backend")  # registers its passes
ROOT = Path(__file__).parents[2]
PASSES = sorted(p.name for p in all_passes() if p.level != "pipeline")
"""Pipelines have tests of their own: tests/backend/test_pipelines.py."""
PREREQUISITES = {
    "allocate-shared": "default,assign-layouts",
    "insert-barriers": "default,assign-layouts,allocate-shared",
    "remove-conversions": "default,assign-layouts", "conditional-row-max": "default,assign-layouts",
    "async-pipeline": "default,scalarize-pointer-steps",
    "warp-specialize": "default,infer-descriptors",
}  # fmt: skip
"""What passes of the backend follow; the others follow `default`."""
DEFECTS = ("TIR0606", "TIR0607", "TIR0608", "TIR0714")
"""Codes that say that a pass is at fault."""
EVERY = 40
"""Of how many combinations the default run looks at one."""


PROGRAMS = [
    str(path.relative_to(ROOT))
    for folder in ("examples", "tests/corpus")
    for path in sorted((ROOT / folder).rglob("*.tir"))
    if ".printed." not in path.name
]
"""The paths of programs that can be read in the newest spelling."""


@cache
def program(name: str) -> Module:
    return parse((ROOT / name).read_text(), name)


@cache
def meaning(name: str) -> dict[str, Any] | None:
    """What a program of `corpus/found` leaves in its arrays; None of others, or where it has no
    meaning."""
    if "corpus/found" not in name:
        return None
    results = arguments(program(name))
    try:
        interpret(program(name), None, 2, results, allow_races=True)
    except TileirError:
        return None
    return results


@lru_cache(8)
def prepare(name: str, before: str) -> Module:
    return run(program(name), before).module if before else program(name)


def ways(name: str) -> Iterator[tuple[str, str, str]]:
    """(program, what ran before, pass) for all passes on a program."""
    for pass_name in PASSES:
        for before in dict.fromkeys(("", "default", PREREQUISITES.get(pass_name, "default"))):
            yield name, before, pass_name


def check_pass(name: str, before: str, pass_name: str) -> None:
    """Run the pass and judge what it does."""
    try:
        module = prepare(name, before)
        result = run(module, pass_name)
    except TileirError as error:
        check_refusal(error)
        return
    verify(result.module)
    assert print_module(parse(print_module(result.module))) == print_module(result.module)
    expected = meaning(name)
    if expected is not None and result.module is not module:
        actual = arguments(program(name))
        options = [str(p.name) for p in result.module.kernel().parameters]
        if [n for n in options if not n.startswith("grid.")] != [*actual]:
            return  # a descriptor is an address and numbers now
        actual |= {n: 2 if n == "grid.0" else 1 for n in options if n.startswith("grid.")}
        interpret(result.module, None, 2, actual, allow_races=True)
        assert differ(actual, expected) is None


def check_refusal(error: TileirError) -> None:
    """A pass may refuse a program, at a place, and not by its own fault."""
    assert error.code not in DEFECTS, error
    assert error.location is not None, error


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(8))
def test_a_sample_of_passes_on_programs(part: int) -> None:
    for name in PROGRAMS[part::8]:
        for way in ways(name):
            if zlib.crc32(":".join(way).encode()) % EVERY == 0:
                check_pass(*way)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_on_every_program(name: str) -> None:
    for way in ways(name):
        check_pass(*way)


def test_every_pass_is_among_them() -> None:
    assert len(PROGRAMS) > 50
    assert len({way[2] for way in ways(PROGRAMS[0])}) == len(PASSES) > 30
    assert all(
        policy_of(name).before in ("", "assign-layouts", "assign-layouts,allocate-shared")
        for name in PASSES
    )


TILES = """tir 1.0
define noinline i32<8> @twice(i32<8> %a) {
entry:
  %r = add i32<8> %a, %a
  ret %r
}
define kernel void @k(i32* %x) {
entry:
  %i = make_range i32<8>
  %v = call i32<8> @twice, %i
  %xs = splat i32*<8> %x
  %p = getelementptr i32*<8> %xs, %i
  store %p, %v
  ret
}
"""
DESCRIPTORS = """tir 1.0
define kernel void @k(tensor_desc<f16<16, 32>> %d, tensor_desc<f16<16, 32>> %e, i32 %i) {
entry:
  %v = descriptor_load f16<16, 32> %d, %i, %i
  %w = fadd f16<16, 32> %v, 1.0
  descriptor_store %e, %w, %i, %i
  ret
}
"""


@pytest.mark.parametrize(("text", "named"), [(TILES, "`inline`"), (DESCRIPTORS, "descriptor_load")])
def test_coalesce_leaves_what_others_replace_before(text: str, named: str) -> None:
    module = parse(text)
    result = run(module, "assign-layouts")
    assert result.module is module
    (remarks,) = result.remarks
    assert (remarks.code, remarks.severity) == ("TIR0669", Severity.REMARK)
    assert remarks.location is not None
    assert named in remarks.message
    inlined = run(parse(text.replace("noinline ", "")), "inline,assign-layouts").module
    assert (inlined.stage == "layouts") == (named == "`inline`")


def test_faults_of_passes_are_told_from_refusals() -> None:
    with pytest.raises(AssertionError):
        check_refusal(PassError(Diagnostic("TIR0601", "no place")))
    invalid = PassError(Diagnostic("TIR0606", "left an invalid module", programs_place()))
    with pytest.raises(AssertionError):
        check_refusal(invalid)


def programs_place() -> Any:
    module = program("examples/add.tir")
    place = module.kernel().location
    assert place is not None
    assert np.all([f.location for f in module.functions.values()])
    return place
