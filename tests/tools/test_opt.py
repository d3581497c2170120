"""`tileir-opt`, option by option."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.opt_programs import LOOP, ONE, TEXT
from tileir.errors import Diagnostic, Location, Severity
from tileir.passmanager import all_passes
from tileir.tools.opt import main
from tileir.tools.opt_expect import differences, expectations

# Input and output ---------------------------------------------------------------------------


def test_without_a_pipeline_the_module_is_printed(opt):
    assert opt(TEXT) == (0, TEXT, "")


def test_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert main(["-p", "dce"]) == 0
    assert capsys.readouterr().out == TEXT


def test_errors_on_standard_input_are_placed_there(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"tir 1.0\n\nnonsense\n")))
    assert main([]) == 1
    assert "<stdin>:3:1" in capsys.readouterr().err


def test_the_command_in_a_process_of_its_own(tmp_path):
    source, target = tmp_path / "a.tir", tmp_path / "b.tir"
    source.write_text(TEXT)
    command = [sys.executable, "-P", "-m", "tileir.tools.opt"]
    command += ["-", "-p", "cse", "-o", str(target)]
    done = subprocess.run(command, stdin=source.open(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert target.read_text().count("add") == 2


@pytest.mark.sampled(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "words", [["opt"], ["opt", "--list-passes"], ["main", "run", "--on", "cpu"], ["main", "link"]]
)
def test_a_full_disk_of_standard_output_is_an_error(words):
    module, *options = words
    command = [sys.executable, "-P", "-m", f"tileir.tools.{module}", *options]
    command += ["examples/add.tir"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert b"TIR0905" in done.stderr and b"Traceback" not in done.stderr


def test_output_goes_to_a_file(opt, tmp_path):
    target = tmp_path / "new" / "out.tir"
    assert opt(TEXT, "-o", str(target)) == (0, "", "")
    assert target.read_text() == TEXT


@pytest.mark.parametrize("arguments", [["-p", "crash"], ["-p", "nonsense"], ["--emit", "ptx"]])
def test_nothing_is_written_where_something_fails(opt, crashing, tmp_path, arguments):
    target = tmp_path / "folder" / "out"
    target.parent.mkdir()
    target.write_text("before")
    text = TEXT if arguments[1] != "ptx" else "tir 1.0\n\nconstant i32<2> @x = [1, 2, 3]\n"
    status, out, _ = opt(text, *arguments, "-o", str(target))
    assert (status, out) == (1, "")
    assert target.read_text() == "before"
    assert list(target.parent.iterdir()) == [target]


def test_nothing_is_left_where_the_disk_is_full(opt, monkeypatch, tmp_path):
    target = tmp_path / "folder" / "out"

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    status, _, err = opt(TEXT, "-o", str(target))
    assert status == 1
    assert "TIR0905" in err
    assert list(target.parent.iterdir()) == []


def test_what_is_no_file_is_not_replaced(opt, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert opt(TEXT, "-o", str(pipe))[0] == 0
    assert os.read(reader, 10_000).decode() == TEXT
    os.close(reader)
    assert pipe.is_fifo()


def test_emit_in_every_form(opt):
    assert opt(ONE, "--emit", "tir")[1].startswith("tir 1.0")
    assert "define " in opt(ONE, "--emit", "llvm")[1]
    assert ".target sm_90a" in opt(ONE, "--emit", "ptx")[1]
    assert ".target sm_80" in opt(ONE, "--emit", "ptx", "--target", "sm_80")[1]


def test_cubin(opt, tmp_path):
    target = tmp_path / "f.cubin"
    assert opt(ONE, "-p", "default", "--emit", "cubin", "-o", str(target))[0] == 0
    assert target.read_bytes().startswith(b"\x7fELF")


def test_an_unknown_target_is_an_error(opt):
    status, out, err = opt(TEXT, "--emit", "ptx", "--target", "sm_1")
    assert (status, out) == (1, "")
    assert re.search(r"TIR\d{4}", err)


# Exit status --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [([], 0), (["-p", "cse"], 0), (["-p", "nonsense"], 1), (["-p", "cse{x=1}"], 1)],
)
def test_exit_status(opt, arguments, status):
    assert opt(TEXT, *arguments)[0] == status


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--emit", "wasm"], ["a", "b"]])
def test_a_wrong_command_line_is_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_missing_files_and_bad_text(opt, tmp_path, capsys):
    assert main([str(tmp_path / "none.tir")]) == 1
    assert "TIR0904" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 1
    assert "TIR0904" in capsys.readouterr().err
    status, out, err = opt("tir 1.0\n\ndefine void @f() {\n")
    assert (status, out) == (1, "")
    assert "input.tir:" in err


# Pipelines ----------------------------------------------------------------------------------


def test_nested_pipelines_with_options(opt):
    status, out, _ = opt(TEXT, "-p", "func{name=f}(repeat{times=3}(simplify,cse),dce)")
    assert status == 0
    assert "%a = mul i32 %n, 1" in out  # only @f was named
    assert "%a = add" not in out and out.count("add i32") == 1


def test_options_reach_the_pass(opt):
    stores = LOOP.replace("  store %p, %x\n", "").replace("  ret", "  store %p, %x\n  ret")
    moved = opt(stores, "-p", "licm{max-depth=1}")[1]
    assert moved.index("load") < moved.index("loop:")


@pytest.mark.parametrize(
    ("pipeline", "code", "part"),
    [
        ("nonsense", "TIR0601", "there are: "),
        ("licm{depth=1}", "TIR0602", "it has: max-depth"),
        ("licm{max-depth=x}", "TIR0602", "of type int"),
        ("licm{max-depth=1,max-depth=2}", "TIR0602", "max-depth is given twice"),
        ("func{name=h}(cse)", "TIR0602", "there are: @f, @g"),
        ("cse,", "TIR0603", "expected a pass"),
        ("func(cse", "TIR0603", "expected ')', not the end, at column 9"),
        ("cse)", "TIR0603", "at column 4"),
        ("licm{max-depth}", "TIR0603", "expected '='"),
        ("func(" * 80 + ")" * 80, "TIR0603", "levels of nesting"),
        ("func(inline)", "TIR0604", "inline"),
    ],
)
def test_bad_pipelines(opt, pipeline, code, part):
    status, out, err = opt(TEXT, "-p", pipeline)
    assert (status, out) == (1, "")
    assert code in err and part in err


# Printing -----------------------------------------------------------------------------------


def test_print_before_and_after(opt):
    _, out, err = opt(TEXT, "-p", "simplify,cse", "--print-before", "cse", "--print-after", "cse")
    assert err.count("; before cse on @f") == err.count("; after cse on @f") == 1
    assert "simplify" not in err
    assert "; after cse on @g (unchanged)" in err
    assert out.startswith("tir 1.0")
    parts = re.split(r"^; (?:before|after) .*\n", err, flags=re.M)[1:]
    assert [p.count(" = add i32") for p in parts] == [2, 1, 1, 1]


def test_print_all(opt):
    _, _, err = opt(TEXT, "-p", "simplify,cse", "--print-before-all", "--print-after-all")
    titles = re.findall(r"^; (.*)$", err, re.M)
    expected = [f"{p} on @{f}" for p in ("simplify", "cse") for f in "fg"]
    assert [t.removesuffix(" (unchanged)") for t in titles] == [
        f"{when} {w}" for w in expected for when in ("before", "after")
    ]


def test_print_names_have_to_be_passes(opt):
    assert "TIR0601" in opt(TEXT, "-p", "cse", "--print-after", "csee")[2]


def test_print_changed_is_a_diff(opt):
    _, _, err = opt(TEXT, "-p", "dce,cse", "--print-changed")
    assert err.startswith("--- before cse on @f\n+++ after cse on @f\n@@")
    assert "\n-  %c = add i32 %a, 1\n" in err
    assert "dce" not in err and "@g\n" not in err.partition("@@")[0]


def test_timing_and_statistics(opt):
    _, _, err = opt(TEXT, "-p", "repeat(simplify,cse)", "--timing", "--stats")
    assert re.search(r"^ +ms +verify +pass$", err, re.M)
    assert re.search(r"^ +\d+\.\d\d +\d+\.\d\d  cse$", err, re.M)
    assert re.search(r"^ +1 cse: ops removed$", err, re.M)


def test_remarks(opt):
    _, _, err = opt(LOOP, "-p", "licm", "--remarks")
    assert "input.tir:8:" in err and "remark[TIR0651]" in err
    assert "%x = load i32 %q" in err


def test_list_passes(capsys):
    assert main(["--list-passes"]) == 0
    out = capsys.readouterr().out
    for each_pass in all_passes():
        assert f"{each_pass.name} ({each_pass.level})\n    {each_pass.summary}\n" in out
    assert "{max-depth=0}: int" in out
    assert "\ndefault = inline,simplify" in out


# Checking -----------------------------------------------------------------------------------


def test_passes_are_verified_between(opt, breaking):
    status, out, err = opt(TEXT, "-p", "break")
    assert (status, out) == (1, "")
    assert "TIR0606" in err and "the pass is at fault" in err
    assert opt(TEXT, "-p", "break", "--no-verify")[0] == 0


def test_split_input(opt):
    renamed = TEXT.replace("@f", "@h")
    status, out, _ = opt(f"{TEXT}; -----\n{renamed}", "--split-input", "-p", "cse")
    assert status == 0
    first, second = out.split("; -----\n")
    assert first.count(" = add") == second.count(" = add") == 2
    assert "@f" in first and "@h" in second


def test_lines_of_split_input_are_those_of_the_file(opt):
    status, _, err = opt(f"{TEXT}; -----\ntir 1.0\n\nnonsense\n", "--split-input")
    line = TEXT.count("\n") + 4
    assert status == 1 and f"input.tir:{line}:1" in err


BAD = """tir 1.0

define void @f(i32 %x) {
entry:
  ; expected-error@+1 {{TIR0101}}
  %y = fadd i32 %x, 1
  ret
}
"""


def test_expected_diagnostics(opt):
    assert opt(BAD, "--verify-diagnostics") == (0, "", "")
    status, _, err = opt(BAD.replace("TIR0101", "TIR0102"), "--verify-diagnostics")
    assert status == 1
    assert "no error with 'TIR0102' at line 6" in err and "unexpected input.tir" not in err
    assert re.search(r"unexpected .*TIR0101", err)


@pytest.mark.parametrize("severity", ["error", "warning", "remark"])
@pytest.mark.parametrize(
    ("offset", "line"), [("", 3), ("@+1", 4), ("@+2", 5), ("@-1", 2), ("@-2", 1), ("@above", 2)]
)
def test_a_comment_expects_one_kind_of_diagnostic_at_one_line(severity, offset, line):
    comment = f"\n\nret ; expected-{severity}{offset} {{{{part}}}}"
    (expected,) = expectations(comment)
    for kind in Severity:
        for at in range(1, 7):
            diagnostic = Diagnostic("TIR0101", "a part of it", Location("f", at, 1), kind)
            fits = kind.value == severity and at == line
            assert differences([expected], [diagnostic]) == (
                [] if fits else [*differences([expected], []), f"unexpected {diagnostic}"]
            )
    assert expected.written == 3 and differences([expected], [])


def test_expected_diagnostics_of_every_part(opt):
    loop = LOOP.replace("  %x =", "  ; expected-remark@+1 {{stays in the loop}}\n  %x =")
    text = f"{BAD}; -----\n{loop}"
    arguments = ("--split-input", "--verify-diagnostics", "-p", "licm")
    assert opt(text, *arguments) == (0, "", "")
    assert opt(text.replace("stays", "leaves"), *arguments)[0] == 1
