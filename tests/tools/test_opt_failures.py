"""`tileir-opt` where a pass fails or is wrong: reproducers and bisection."""

import pytest

from tests.tools.opt_programs import ONE, TEXT
from tileir.passmanager import CrashError, Pass, find_passes, run
from tileir.textual import parse
from tileir.tools.opt import main

# Reproducers --------------------------------------------------------------------------------


def test_a_crash_leaves_a_reproducer_that_replays(opt, crashing, tmp_path, capsys):
    path = tmp_path / "crash.tir"
    pipeline = "simplify,func(cse,crash{level=7})"
    status, out, err = opt(TEXT, "-p", pipeline, "--reproducer", str(path))
    assert (status, out) == (1, "")
    assert "TIR0605" in err and "KeyError: 'level 7'" in err and str(path) in err
    saved = parse(path.read_text())
    assert saved.metadata["reproducer.pipeline"] == "func{name=f}(crash{level=7})"
    assert saved.metadata["reproducer.error"] == "KeyError"
    assert "%c = add" not in path.read_text()  # as simplify and cse left it
    assert main(["--run-reproducer", str(path)]) == 1
    assert "KeyError: 'level 7'" in capsys.readouterr().err


def test_an_invalid_result_leaves_a_reproducer(opt, breaking, tmp_path, capsys):
    path = tmp_path / "crash.tir"
    assert opt(TEXT, "-p", "cse,break", "--reproducer", str(path))[0] == 1
    assert main(["--run-reproducer", str(path)]) == 1
    assert "TIR0606" in capsys.readouterr().err


def test_a_crash_says_how_to_get_a_reproducer(opt, crashing):
    assert "--reproducer FILE" in opt(TEXT, "-p", "crash")[2]


def test_a_crash_holds_what_reproduces_it(crashing):
    with pytest.raises(CrashError) as caught:
        run(parse(TEXT), "simplify,crash{level=3}")
    with pytest.raises(CrashError, match="level 3"):
        run(caught.value.module, caught.value.pipeline)


@pytest.mark.parametrize("answer", [None, parse(TEXT), "text"])
def test_a_pass_that_gives_something_else_has_failed(answer, monkeypatch):
    passed = Pass("forgetful", lambda function: answer, "function", ())
    monkeypatch.setitem(find_passes._PASSES, "forgetful", passed)
    message = f"the pass returned {type(answer).__name__}, not a Function"
    with pytest.raises(CrashError, match=message):
        run(parse(TEXT), "forgetful")


def test_other_files_are_no_reproducers(opt):
    assert "TIR0607" in opt(TEXT, "--run-reproducer")[2]


# Bisection ----------------------------------------------------------------------------------


@pytest.fixture
def wrong(monkeypatch):
    """A pass `wrong` that makes every multiplication an addition."""

    def replace(function):
        from tileir.ops.arith import Add
        from tileir.rewrite import rewrite

        return rewrite(function, {"mul": lambda op, _: Add(op.lhs, op.rhs)})

    monkeypatch.setitem(find_passes._PASSES, "wrong", Pass("wrong", replace, "function", ()))


DESCRIBED = """tir 1.0

metadata {
  run.grid = [1],
  run.p = "i32[1]",
  run.n = "5"
}

""" + ONE.partition("\n\n")[2]


def test_bisect_names_the_pass(tmp_path, capsys, wrong):
    path, before = tmp_path / "a.tir", tmp_path / "before.tir"
    path.write_text(DESCRIBED)
    pipeline = "simplify,cse,wrong,dce"
    assert main(["bisect", str(path), "-p", pipeline, "-o", str(before)]) == 0
    assert capsys.readouterr().out.startswith("wrong on @f changes the result")
    assert before.read_text().count(" = mul") == 1
    assert before.read_text().count(" = add") == 1


def test_bisect_by_command(tmp_path, capsys, wrong):
    path = tmp_path / "a.tir"
    path.write_text(TEXT)
    command = ["bisect", str(path), "-p", "cse,wrong,dce", "--command", "grep -q mul {}"]
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("wrong on @")


def test_bisect_without_a_difference(tmp_path, capsys):
    path = tmp_path / "a.tir"
    path.write_text(DESCRIBED)
    assert main(["bisect", str(path), "-p", "simplify,cse"]) == 1
    assert "TIR0609" in capsys.readouterr().err


REDUCTION = """tir 1.0

metadata {
  run.grid = [1],
  run.x = "f32[4096] normal",
  run.y = "f32[1]"
}

define kernel void @f(f32* noalias %x, f32* noalias %y) {num_warps = 1} {
entry:
  %i = make_range i32<4096>
  %xs = splat f32*<4096> %x
  %p = getelementptr f32*<4096> %xs, %i
  %v = load f32<4096> %p
  %e = exp f32<4096> %v
  %s = reduce f32 %e {combiner = fadd}
  store %y, %s
  ret
}
"""


def test_sums_in_another_order_are_right_unless_bits_are_asked_for(tmp_path, capsys):
    path = tmp_path / "a.tir"
    path.write_text(REDUCTION)
    command = ["bisect", str(path), "-p", "strip-mine{limit=16}", "--seed", "1"]
    assert main(command) == 1
    assert "TIR0609" in capsys.readouterr().err
    assert main([*command, "--within", "0"]) == 0
    assert capsys.readouterr().out.startswith("strip-mine{limit=16} changes the result")
