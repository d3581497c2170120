"""Files as problems: directives, expressions, what the paper's space is of a program."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from tileir.backend.tuning import ParameterRole
from tileir.errors import ToolError
from tileir.tools.tuning.directives import directives, resolve_extents
from tileir.tools.tuning.expressions import numbers
from tileir.tools.tuning.problems import TuneSettings, choices_in, problem_of
from tileir.tools.tuning.sources import load_module

ROOT = Path(__file__).parents[3]
LISTING = ROOT / "tests/frontends/triton_c/listings/listing1.c"
EXAMPLE = str(ROOT / "examples/matmul.tir")
GIVEN = (
    "M=64", "N=96", "K=32", "a=f32[K, M] normal", "b=f32[K, N] normal", "c=f32[N, M]",
    "run.grid=cdiv(M, TM), cdiv(N, TN)",
)  # fmt: skip

TRITON = '''
"""C = A B."""
import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl

# run.m = 64
# run.x = f32[m] normal
# run.y = f32[m]
# run.grid = cdiv(m, BLOCK)

@triton.autotune(
    [triton.Config({"BLOCK": 16}, num_warps=1), triton.Config({"BLOCK": 32}, num_warps=2)],
    key=["m"],
)
@triton.jit
def double(x, y, m, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2.0 * tl.load(x + i, i < m), i < m)

@triton.jit
def other(x, y, m, BLOCK: tl.constexpr):
    pass
'''


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", (4,)), ("cdiv(m, 16), n", (7, 3)), ("-m + 2 * n", (-94,)),
        ("max(m, n) // 7 % 5", (4,)),
    ],
)  # fmt: skip
def test_expressions(text, value):
    assert numbers(text, {"m": 100, "n": 3}) == value


@pytest.mark.parametrize(
    "text",
    ["", "m.real", "open('x')", "x", "1.5", "m / 2", "(1, 2), 3", "1 // 0", "m if 1 else 2",
     "(" * 200, "1,", "9**9", "1" * 2000, "True", "[m]", "cdiv(m)", "m; n", "cdiv(*m)",
     "min(m, key=n)"],
)  # fmt: skip
def test_texts_that_are_no_numbers_are_refused(text):
    with pytest.raises(ToolError) as error:
        numbers(text, {"m": 100, "n": 3})
    assert error.value.code == "TIR0903"


def test_directives_stand_in_comments_and_are_overridden():
    text = '// run.m = 4\n; run.a = "f32[m, 2 * m] normal"\n  # within.a = 1e-3\nrun.x = 3\n'
    result = directives(text, ["m=8", "tune.T=1,2"])
    assert result == {
        "run.m": "8", "run.a": "f32[m, 2 * m] normal", "within.a": "1e-3", "tune.T": "1,2",
    }  # fmt: skip
    assert resolve_extents(result)["run.a"] == "f32[8, 16] normal"
    with pytest.raises(ToolError, match="not NAME=VALUE"):
        directives("", ["m"])


def test_choices_are_numbers_and_words():
    assert choices_in("32, 64,true,none,1.5,ieee") == (32, 64, True, None, 1.5, "ieee")


def test_a_module_has_the_compilers_parameters():
    problem = problem_of(EXAMPLE, None, TuneSettings(tried={"num_warps": (2, 4)}))
    names = {p.name: p.choices for p in problem.space.parameters}
    assert names.keys() == {"num_stages", "num_warps"}
    assert names["num_warps"] == (2, 4) and {1, 2, 3, 4} <= set(names["num_stages"])
    assert problem.job(next(iter(problem.space))).grid == (5, 6)
    assert problem.within == {
        "a": pytest.approx(3.8e-6, rel=0.1),
        "b": problem.within["a"],
        "c": 2e-5,
    }
    inputs = problem.inputs()
    np.testing.assert_allclose(
        problem.expected(inputs)["c"], inputs["a"] @ inputs["b"], rtol=1e-4, atol=1e-4
    )


def test_a_program_has_its_tunables_and_an_interpreter_to_say_what_is_right():
    problem = problem_of(str(LISTING), None, TuneSettings(GIVEN, spaces=("factory",)))
    assert len(problem.space) == 4 * 4 * 2
    point = {"TM": 32, "TN": 64, "TK": 8}
    assert problem.job(point).grid == (2, 2)
    inputs = problem.inputs()
    np.testing.assert_allclose(
        problem.expected(inputs)["c"], inputs["b"].T @ inputs["a"], rtol=1e-4, atol=1e-4
    )
    job = pickle.loads(pickle.dumps(problem.job(point)))
    assert job.module().kernel(None).name == "matmul_nt"


def test_the_papers_space_of_its_own_listing():
    problem = problem_of(str(LISTING), None, TuneSettings(GIVEN, spaces=("mapl19",)))
    assert len(problem.space) == 27 * 27 * 3
    assert {p.name for p in problem.space.parameters} == {
        "TM", "micro.TM", "nano.TM", "TN", "micro.TN", "nano.TN", "TK",
    }  # fmt: skip
    point = next(iter(problem.space))
    assert problem.space.split(point)[ParameterRole.MAKE] == {"TM": 32, "TN": 32, "TK": 32}
    kernel = problem.job(point).module().kernel(None)
    assert kernel.attributes["micro"] == (8, 8)
    assert kernel.attributes["nano"] == (1, 1)


def test_configurations_of_tritons_autotuner_are_points(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(TRITON)
    problem = problem_of(f"{file}:double", None, TuneSettings())
    assert list(problem.space) == [{"BLOCK": 16, "num_warps": 1}, {"BLOCK": 32, "num_warps": 2}]
    job = problem.job({"BLOCK": 32, "num_warps": 2})
    assert job.options == {"num_warps": 2}
    assert job.grid == (2,)
    inputs = problem.inputs()
    np.testing.assert_allclose(problem.expected(inputs)["y"], 2 * inputs["x"])
    with pytest.raises(ToolError, match="has 2 kernels"):
        problem_of(str(file), None, TuneSettings())
    with pytest.raises(ToolError, match="no kernel or problem third"):
        problem_of(f"{file}:third", None, TuneSettings())


def test_what_cannot_be_tuned_is_refused(tmp_path):
    with pytest.raises(ToolError, match="no value to run on"):
        problem_of(str(LISTING), None, TuneSettings(GIVEN[1:3]))
    with pytest.raises(ToolError, match="only a file of Python"):
        problem_of(f"{LISTING}:x", None, TuneSettings())
    with pytest.raises(ToolError, match="cannot read"):
        problem_of(str(tmp_path / "none.py"), None, TuneSettings())
    with pytest.raises(ToolError, match="no tunable is an extent"):
        problem_of(EXAMPLE, None, TuneSettings(spaces=("mapl19",)))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\n\nopen('none')\n", 3, "FileNotFoundError"),
        ("x = 1\ndef (\n", 2, "SyntaxError: invalid syntax"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError: division by zero"),
    ],
)
def test_files_of_python_that_fail_are_errors_at_their_line(
    text: str, line: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolError, match=message) as caught:
        load_module("mine.py")
    assert (caught.value.code, caught.value.line) == ("TIR0915", line)
