"""Mutants are what they should be, and a wrong line is detected where a test looks at it."""

from __future__ import annotations

import ast
import builtins
import functools
import re
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sources import nodes_by_type
from tileir.testing.mutation import __main__ as command, seeded
from tileir.testing.mutation.__main__ import _mutants, _parser, main
from tileir.testing.mutation.areas import AREAS, TESTS, files, judges
from tileir.testing.mutation.change import Change
from tileir.testing.mutation.fork import Outcome, attempt
from tileir.testing.mutation.operators import mutants
from tileir.testing.mutation.planted_bugs import BUGS
from tileir.testing.mutation.planted_bugs_of_analyses import BUGS_OF_ANALYSES
from tileir.testing.mutation.planted_bugs_of_executors import BUGS_OF_EXECUTORS
from tileir.testing.mutation.planted_bugs_of_frontends import BUGS_OF_FRONTENDS
from tileir.testing.mutation.planted_bugs_of_instructions import BUGS_OF_INSTRUCTIONS
from tileir.testing.mutation.planted_bugs_of_languages import BUGS_OF_LANGUAGES
from tileir.testing.mutation.planted_bugs_of_layouts import BUGS_OF_LAYOUTS
from tileir.testing.mutation.planted_bugs_of_memory import BUGS_OF_MEMORY
from tileir.testing.mutation.planted_bugs_of_synchronization import BUGS_OF_SYNCHRONIZATION
from tileir.testing.mutation.planted_bugs_of_tensors import BUGS_OF_TENSORS
from tileir.testing.mutation.reach import Suite, reach, suites_for
from tileir.testing.mutation.results import MutationResults

ROOT = Path(__file__).resolve().parents[2]
PLANTED = (
    *BUGS_OF_MEMORY,
    *BUGS_OF_FRONTENDS,
    *BUGS_OF_LAYOUTS,
    *BUGS_OF_EXECUTORS,
    *BUGS_OF_INSTRUCTIONS,
    *BUGS_OF_ANALYSES,
    *BUGS_OF_SYNCHRONIZATION,
    *BUGS_OF_TENSORS,
    *BUGS_OF_LANGUAGES,
)


def names(source: str) -> set[str]:
    return {c.name for c in mutants("tileir/x.py", source)}


def mutated_sources(source: str) -> set[str]:
    return {c.source for c in mutants("tileir/x.py", source)}


def test_each_operator_of_a_comparison_is_replaced() -> None:
    assert mutated_sources("a = b < c\n") == {"a = (b <= c)\n", "a = (b >= c)\n"}


def test_conditions_constants_and_results_change() -> None:
    source = "def f(x):\n    if not x:\n        return x + 1\n    raise E\n"
    assert names(source) == {
        "'not x' -> 'x'",
        "'x + 1' -> 'x - 1'",
        "'1' -> '2'",
        "'return x + 1' -> 'return None'",
        "'raise E' -> 'pass'",
    }


def test_annotations_texts_and_names_stay() -> None:
    source = '__all__ = ["a"]\nx: int | None = None\ns = "a" + f"{y + 1}"\nU = int | str\n'
    assert names(source) == set()


def test_an_edit_over_lines_leaves_later_lines_where_they_were() -> None:
    source = "f(\n    a\n)\ng()\n"
    assert "pass\n\n\ng()\n" in mutated_sources(source)


def test_the_key_follows_the_definition_and_not_the_file() -> None:
    source = "def f(x):\n    return x < 1\n"
    before = {c.key for c in mutants("tileir/x.py", source)}
    assert before == {c.key for c in mutants("tileir/x.py", "import a\n\n" + source)}
    assert not before & {c.key for c in mutants("tileir/x.py", source.replace("1", "7"))}


def test_a_change_is_detected_by_a_test_that_looks(tmp_path: Path) -> None:
    file, old = "tileir/effects.py", "class Effects"
    source = (ROOT / file).read_text()
    looks, looks_away = tmp_path / "test_looks.py", tmp_path / "test_away.py"
    looks.write_text("def test():\n    from tileir.effects import Effects\n")
    looks_away.write_text("def test():\n    pass\n")
    wrong = Change(file, 1, "renamed", source.replace(old, "class Other"), "")
    killed = attempt(wrong, ROOT, [str(looks_away), str(looks)], 600)
    assert (killed.status, killed.failed.rpartition("::")[2]) == ("killed", "test")
    assert "test_looks.py" in killed.failed
    assert attempt(wrong, ROOT, [str(looks_away)], 600).status == "survived"
    assert attempt(None, ROOT, [str(looks), str(looks_away)], 600).status == "survived"
    with pytest.raises(LookupError, match=r"test_looks\.py::test_other"):
        attempt(wrong, ROOT, [f"{looks}::test_other"], 600)
    slow = tmp_path / "test_slow.py"
    slow.write_text("import time\ndef test():\n    time.sleep(3600)\n")
    assert attempt(None, ROOT, [str(slow)], 1).status == "timeout"


def test_modules_of_tests_are_reloaded(tmp_path: Path) -> None:
    """Modules of the project that other tests imported hold objects of the unchanged tileir."""
    (tmp_path / "kept.py").write_text("from tileir.effects import Effects\n")
    test = tmp_path / "test_kept.py"
    test.write_text(
        "def test():\n    import kept\n    from tileir.effects import Effects\n"
        "    assert kept.Effects is Effects\n"
    )
    run = "import sys\nfrom pathlib import Path\nfrom tileir.testing.mutation.fork import attempt\n"
    run += "sys.path.insert(0, sys.argv[1])\nimport kept\n"
    run += "print(attempt(None, Path(sys.argv[1]), [sys.argv[2]], 600).status)"
    command = [sys.executable, "-c", run, str(tmp_path), str(test)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "survived\n"


@pytest.mark.sampled(1)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("how", (signal.SIGTERM, signal.SIGKILL))
def test_nothing_runs_on_when_the_command_is_stopped(tmp_path: Path, how: int) -> None:
    """The tests of a change, and what these start, have no more time than who waits for them."""
    numbers = tmp_path / "numbers"
    slow = tmp_path / "test_slow.py"
    slow.write_text(
        "import os, subprocess, time\n"
        "def test():\n    other = subprocess.Popen(['sleep', '600'])\n"
        f"    with open({str(numbers) + '.new'!r}, 'w') as out:\n"
        "        out.write(f'{os.getpid()} {other.pid}')\n"
        f"    os.rename({str(numbers) + '.new'!r}, {str(numbers)!r})\n    time.sleep(600)\n"
    )
    run = "from tileir.testing.mutation.fork import attempt; from pathlib import Path; import sys\n"
    run += "attempt(None, Path(sys.argv[1]), [sys.argv[2]], 600)"
    command = subprocess.Popen([sys.executable, "-c", run, str(ROOT), str(slow)])
    _until(numbers.exists)
    running = [int(number) for number in numbers.read_text().split()]
    assert all(map(_runs, running))
    command.send_signal(how)
    command.wait()
    _until(lambda: not any(map(_runs, running)))


def _until(what: Callable[[], bool]) -> None:
    ends = time.monotonic() + 600
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.05)


def _runs(number: int) -> bool:
    """Whether there is such a process, and it is not at its end."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_tests_that_do_not_reach_a_change_are_not_run(tmp_path: Path) -> None:
    near, far = tmp_path / "test_near.py", tmp_path / "test_far.py"
    near.write_text(
        "from tileir.testing.shrinking import shrink\n"
        "def test():\n    assert shrink([(1, 2, 3, 4)], bool) == [(1, 0, 0, 0)]\n"
    )
    far.write_text("import tileir.testing.shrinking\ndef test():\n    assert False\n")
    cache, names = tmp_path / "reach.json", [str(far), str(near)]
    suites = reach(ROOT, names, 1, cache)
    assert [suites[name].passed for name in names] == [False, True]
    assert reach(ROOT, names, 1, cache) == suites
    file = "testing/shrinking.py"
    source = (ROOT / file).read_text()
    inside = Change(file, source.split("def shrink(")[0].count("\n") + 12, "", source, "")
    on_import = Change(file, 1, "", source, "")
    assert [s.tests for s in suites_for(inside, names, suites)] == [str(near)]
    assert [s.tests for s in suites_for(on_import, names, suites)] == [str(near)]
    cache.write_text(cache.read_text()[:-30])  # cut off
    assert reach(ROOT, names, 1, cache, ends=0.0) == {names[0]: suites[names[0]]}
    assert reach(ROOT, names, 1, cache).keys() == suites.keys()
    other = Change("tileir/linker.py", 1, "", (ROOT / "tileir/linker.py").read_text(), "")
    assert suites_for(other, names, suites) == []


def test_results_from_elsewhere_are_taken_over(tmp_path: Path) -> None:
    here, there = tmp_path / "here.tsv", tmp_path / "there.tsv"
    here.write_text("a\tsurvived\t1\nb\tequivalent\tbecause\n")
    there.write_text("a\tkilled\t2\nb\tsurvived\t3\nc\tkilled\t4\n")
    results = MutationResults(here)
    assert results.merge(there) == 2
    assert here.read_text() == "a\tkilled\t2\nb\tequivalent\tbecause\nc\tkilled\t4\n"
    change = next(mutants("tileir/x.py", "a = b < c\n"))
    MutationResults(here, tmp_path / "out.tsv").add(change, attempt(None, ROOT, [], 600))
    assert change.key not in MutationResults(here) and change.key in MutationResults(
        tmp_path / "out.tsv"
    )


def test_tests_that_were_stopped_are_not_known(tmp_path: Path) -> None:
    stopped = tmp_path / "test_stopped.py"
    stopped.write_text("import os\ndef test():\n    os.kill(os.getpid(), 15)\n")
    assert reach(ROOT, [str(stopped)], 1, tmp_path / "reach.json") == {}


def test_tests_of_that_name_come_first() -> None:
    source = (ROOT / "backend/shared_memory/offset_assignment.py").read_text()
    change = Change("backend/shared_memory/offset_assignment.py", 1, "", source, "")
    seconds = {
        "tests/backend/test_dot.py": 5.0,
        "tests/backend/shared_memory/test_barriers.py": 9.0,
        "tests/backend/test_offset_assignment.py::test_rooms": 76.0,
        "tests/examples/test_examples.py": 4.0,
    }
    calls = frozenset({(change.module, 0)})
    suites = {path: Suite(path, True, s, calls) for path, s in seconds.items()}
    paths = list(seconds)
    order = [paths.index(s.tests) for s in suites_for(change, paths, suites)]
    assert order == [1, 3, 2, 0]


def test_what_a_run_tries(tmp_path: Path) -> None:
    """A fresh draw leaves out lines that were tried, a second try what did not survive before."""
    (tmp_path / "tileir").mkdir()
    source = "a = b < c\nd = e < f\n"
    (tmp_path / "tileir/x.py").write_text(source)
    first, second, *_ = (c.key for c in mutants("tileir/x.py", source))
    results, out = tmp_path / "results.tsv", tmp_path / "out.tsv"
    results.write_text(f"{first}\tsurvived\t1\n")
    options = ["mutants", "tileir/x.py", "--root", str(tmp_path), "--results", str(results)]
    options += ["--out", str(out), "--reach", str(tmp_path / "reach")]
    main([*options, "--retry"])
    assert [line.split("\t")[0] for line in out.read_text().splitlines()] == [first]
    main([*options, "--retry"])
    assert len(out.read_text().splitlines()) == 1
    main([*options, "--fresh", "--sample", "5"])
    tried = [line.split("\t")[0] for line in out.read_text().splitlines()[1:]]
    assert len(tried) == 2 and not {first, second} & set(tried)
    main(options)
    assert out.read_text().splitlines()[3].split("\t")[0] == second


def test_a_draw_stays_when_other_changes_come(tmp_path: Path) -> None:
    (tmp_path / "tileir").mkdir()
    path, options = tmp_path / "tileir/x.py", ["mutants", "tileir/x.py", "--root", str(tmp_path)]

    def drawn_keys(source: str) -> set[str]:
        path.write_text(source)
        parsed = _parser().parse_args([*options, "--sample", "12", "--seed", "3"])
        return {c.key for c in _mutants(parsed, MutationResults(tmp_path / "none.tsv"))}

    source = "".join(f"a{n} = b{n} < c{n}\n" for n in range(20))
    before = drawn_keys(source)
    after = drawn_keys("new = b < c\n" + source)
    assert len(before) == len(after) == 12
    assert len(before - after) <= 2, "the new line has two mutants"


def test_results_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "results.tsv"
    change = next(mutants("tileir/x.py", "a = b < c\n"))
    results = MutationResults(path)
    results.add(change, attempt(None, ROOT, [], 600))
    assert change.key in MutationResults(path)


@pytest.mark.parametrize("area", AREAS)
def test_every_area_has_files_and_every_file_tests(area: str) -> None:
    for file in files(area, ROOT):
        assert all((ROOT / path.split("::")[0]).is_file() for path in judges(file, ROOT))


@pytest.mark.slow
def test_single_tests_that_judge_exist() -> None:
    named = {test for judging in TESTS.values() for test in judging}
    named |= {test for bug in BUGS for test in bug.tests}
    single = sorted(name for name in named if "::" in name)
    assert single
    command = [sys.executable, "-m", "pytest", "--collect-only", "-m", "", *single]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert collected.returncode == 0, collected.stdout + collected.stderr


def test_seeded_bugs_fit_the_source() -> None:
    words_of_file = functools.cache(lambda file: words((ROOT / file).read_text()))
    for change in seeded.changes(ROOT):
        compile(change.source, change.file, "exec")
        new_words = words(change.source) - words_of_file(change.file)
        assert not (new_words and new_words & undefined_names(change.source)), change.name


def words(source: str) -> set[str]:
    return set(re.findall(r"\w+", source))


def undefined_names(source: str) -> set[str]:
    """Names that a module uses and that nothing in it defines: a bug with a name that is gone would
    be detected as a NameError, by any test."""
    nodes = nodes_by_type(ast.parse(source))
    used = {name.id for name in nodes[ast.Name] if isinstance(name.ctx, ast.Load)}
    defined = {name.id for name in nodes[ast.Name] if not isinstance(name.ctx, ast.Load)}
    defined |= {argument.arg for argument in nodes[ast.arg]}
    defined |= {name.name for name in (*nodes[ast.MatchAs], *nodes[ast.MatchStar]) if name.name}
    for node in (*nodes[ast.FunctionDef], *nodes[ast.AsyncFunctionDef], *nodes[ast.ClassDef]):
        defined.add(node.name)
    for node in nodes[ast.ExceptHandler]:
        defined.add(node.name or "")
    for node in (*nodes[ast.Import], *nodes[ast.ImportFrom]):
        defined |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return used - defined - vars(builtins).keys() - {"__name__", "__file__", "__path__"}


def test_names_that_nothing_defines_are_detected() -> None:
    assert undefined_names("def f(x):\n    return x + NOTHING\n") == {"NOTHING"}
    assert not undefined_names(
        "import a.b as c\nfrom d import e\n[c, e, len(x := 1), x, __name__]\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted({b.file for b in PLANTED}))
def test_a_planted_bug_is_detected(file: str) -> None:
    """One of each file, planted again: a test fails with it, which passes without it."""
    names = {b.name for b in PLANTED}
    bugs = [c for c in seeded.changes(ROOT, file) if c.name in names]
    bug = min(bugs, key=lambda c: zlib.crc32(c.key.encode()))
    judged = attempt(bug, ROOT, bug.tests, 900)
    assert judged.status == "killed", bug.name
    assert attempt(None, ROOT, [judged.failed], 900).status == "survived", judged.failed


def test_bugs_that_name_their_tests_need_no_area(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No area judges the files of frontends. Only bugs of the files that are named are tried."""
    chosen = BUGS_OF_FRONTENDS[0].file
    monkeypatch.setattr(command, "preload", lambda: None)
    monkeypatch.setattr(
        command, "attempt", lambda change, root, tests, limit: Outcome("killed", float(bool(tests)))
    )
    results = tmp_path / "results.tsv"
    results.touch()
    assert command.main(["seeded", chosen, "--root", str(ROOT), "--results", str(results)]) == 0
    lines = [line.split("\t") for line in results.read_text().splitlines()]
    assert len(lines) == sum(b.file == chosen for b in BUGS)
    assert {tuple(line[1:]) for line in lines} == {("killed", "1.0")}
    assert all(line[0].startswith(chosen) for line in lines)
