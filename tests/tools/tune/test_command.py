"""`tileir tune` as a user sees it."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from problems import bowl, misleading_model, problem

from tileir.backend.tuning import Pruning, tune
from tileir.backend.tuning.report import duration, effects, explain, rank_correlation
from tileir.backend.tuning.synchronous_executor import SynchronousExecutor
from tileir.testing.fake_meter import FormulaMeter
from tileir.tools.main import main
from tileir.tools.tuning.plot import picture
from tileir.tools.tuning.progress import Bar, Lines, observer

ROOT = Path(__file__).parents[3]
ADD = """tir 1.0
metadata { run.x = "f32[256] normal", run.y = "f32[256]", expect.y = "copy(x)", run.grid = [2] }
define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y) {
entry:
  %pid = program_id i32
  %base = mul i32 %pid, 128
  %from = splat i32<128> %base
  %r = make_range i32<128>
  %i = add i32<128> %from, %r
  %xs = splat f32*<128> %x
  %p = getelementptr f32*<128> %xs, %i
  %v = load f32<128> %p
  %ys = splat f32*<128> %y
  %q = getelementptr f32*<128> %ys, %i
  store %q, %v
  ret
}
"""


@pytest.fixture(scope="module")
def result():
    meter = FormulaMeter(bowl, misleading_model, {"M=16,N=16,num_warps=1": "raise"})
    return tune(problem(), meter, executor=SynchronousExecutor(), pruning=Pruning(slower=1.4))


def run(capsys, *words):
    status = main(["tune", *words])
    return status, capsys.readouterr()


def test_a_kernel_is_tuned_listed_exported_and_merged(capsys, tmp_path):
    file, base = tmp_path / "copy.tir", tmp_path / "tuning.db"
    file.write_text(ADD)
    picture, rows, export = tmp_path / "p.svg", tmp_path / "r.json", tmp_path / "e.json"
    status, printed = run(
        capsys, str(file), "--on", "cpu", "--database", str(base), "--plot", str(picture),
        "--json", str(rows), "--export", str(export), "--processes", "1",
    )  # fmt: skip
    assert status == 0
    assert "@copy on " in printed.out
    assert "x=float32[256] y=float32[256]" in printed.out
    ET.parse(picture)
    assert json.loads(rows.read_text())["outcomes"][0]["status"] == "measured"
    _, second = run(capsys, str(file), "--on", "cpu", "--database", str(base), "--quiet")
    assert "1 measurements were in the database already" in second.out
    assert second.err == ""
    other = str(tmp_path / "other.db")
    status, merged = run(capsys, "--database", other, "--merge", str(export), "--list")
    assert status == 0
    assert "1 measurements" in merged.out
    assert "@copy" in merged.out


class AskedError(Exception):
    """Raised in place of a search."""


@pytest.mark.parametrize(("words", "read", "value"), [
    ("--slower 2.5", lambda options: options["pruning"].slower, 2.5),
    ("--slower 0", lambda options: options["pruning"].slower, None),
    ("--compile-limit 7", lambda options: options["limits"].compile, 7.0),
    ("--seconds 5", lambda options: options["stop"].seconds, 5.0),
    ("--trials 4", lambda options: options["stop"].trials, 4),
    ("--patience 3", lambda options: options["stop"].patience, 3),
    ("--launches 9", lambda options: options["search"].launches, 9),
    ("--search local --seed 6", lambda options: getattr(options["search"], "seed", None), 6),
    ("--database :memory:", lambda options: options["database"].path, ":memory:"),
    ("--seed 6", lambda options: options["problem"].inputs.args[1], 6),
    ("--check first", lambda options: options["problem"].expected, None),
])  # fmt: skip
def test_options_reach_the_search(words, read, value, monkeypatch, tmp_path):
    def asks(problem, meter, **options):
        searches.append({"problem": problem, **options})
        raise AskedError

    file, searches = tmp_path / "copy.tir", []
    file.write_text(ADD)
    monkeypatch.setattr("tileir.tools.tune.tune", asks)
    monkeypatch.setenv("TILEIR_CACHE", str(tmp_path))
    for line in ("", words):
        with pytest.raises(AskedError):
            main(["tune", str(file), "--on", "cpu", "--processes", "1", *line.split()])
    usual, stated = searches
    assert read(stated) == value != read(usual)


def test_candidates_are_ranked_without_a_gpu(capsys):
    words = (
        str(ROOT / "examples/matmul.tir"),
        "--dry-run",
        "--try",
        "num_warps=2,4",
        "--try",
        "num_stages=2,3",
    )
    status, printed = run(capsys, *words, "--database", ":memory:", "--processes", "1")
    assert status == 0
    assert printed.out.startswith("4 candidates, 0 left out")
    assert "num_stages=3,num_warps=4" in printed.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "TIR0915"), (("--merge", "none.json"), "TIR0904"),
        (("x.tir", "--space", "all"), "TIR0915"), (("x.tir", "--try", "M"), "TIR0915"),
        (("x.tir",), "TIR0904"), (("x.tir", "--on", "gpu"), "TIR0907"),
    ],
)  # fmt: skip
def test_wrong_command_lines_are_errors_with_codes(capsys, words, code):
    if code == "TIR0907":
        from tileir.tools.executors import no_gpu

        if no_gpu() is None:
            pytest.skip("there is a GPU")
    status, printed = run(capsys, *words, "--database", ":memory:")
    assert status == 1
    assert code in printed.err


def test_the_report_says_why_this_one(result):
    text = explain(result)
    assert "best: M=64,N=32,num_warps=4: 1 ms" in text
    assert "of 100 candidates" in text
    assert "num_warps 4 -> 8: 1.250 times as long" in text
    assert "M 64 -> 32: ruled out: expected to take" not in text
    assert "  num_warps: 1 1.500, 2 1.250, 4 1.000, 8 1.250" in text
    assert "ruled out (TIR1104)" in text
    assert "by the model it takes" in text


def test_effects_are_the_quickest_with_each_choice(result):
    values = {(e.parameter, e.choice): round(e.ratio, 3) for e in effects(result)}
    assert values["num_warps", 1] == 1.5
    assert values["M", 128] == 1.3


def test_a_model_that_is_right_correlates_fully_and_a_wrong_one_less(result):
    right = tune(problem(), FormulaMeter(bowl, bowl), executor=SynchronousExecutor())
    assert rank_correlation(right) == pytest.approx(1.0)
    assert rank_correlation(result) < 0.9
    assert (
        rank_correlation(tune(problem(), FormulaMeter(bowl), executor=SynchronousExecutor()))
        is None
    )


def test_the_picture_shows_every_candidate(result):
    root = ET.fromstring(picture(result))
    dots = [e for e in root.iter() if e.get("class", "").startswith("dot")]
    assert len(dots) == 2 * len(result.good_outcomes)
    titles = "".join(root.itertext())
    assert "M=64,N=32,num_warps=4: 1 ms, expected" in titles


def test_durations():
    values = [duration(s) for s in (2.0, 1.5e-3, 12.94e-6, 3e-9, None)]
    assert values == ["2 s", "1.5 ms", "12.94 us", "3 ns", "-"]


@pytest.mark.parametrize(
    ("terminal", "rich", "kind"),
    [(True, True, Bar), (True, False, Lines), (False, True, Lines), (False, False, Lines)],
)
def test_a_bar_is_for_terminals_and_needs_rich(monkeypatch, terminal, rich, kind):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if rich else None)
    assert isinstance(observer(), kind)


def test_the_bar_shows_how_far_it_is_and_the_best(capsys, monkeypatch, result):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    bar = Bar()
    bar.begin("measuring", 2)
    for outcome in result.outcomes[:2]:
        bar.on_result(outcome, result.best)
    bar.close()
    shown = capsys.readouterr().err
    assert "measuring" in shown and "1 ms  M=64,N=32,num_warps=4" in shown and "2/2" in shown


def test_lines_are_written_that_are_not_shown(capsys, result):
    lines = Lines()
    lines.begin("measuring", 2)
    for _ in range(2):
        lines.on_result(result.best, result.best)
    assert capsys.readouterr().err.splitlines() == [
        "measuring: about 2", "  1 ms  M=64,N=32,num_warps=4",
    ]  # fmt: skip


def test_interrupted_runs_say_that_they_can_go_on(capsys, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tileir.tools.tune.tune", interrupt)
    file = tmp_path / "copy.tir"
    file.write_text(ADD)
    status, printed = run(capsys, str(file), "--on", "cpu", "--database", ":memory:")
    assert status == 130
    assert "run the same command to continue" in printed.err
