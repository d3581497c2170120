"""The command `tileir`, as a user sees it."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tileir
from tileir.error_codes import CODES
from tileir.tools import executors, opt
from tileir.tools.explain import explanation, listing
from tileir.tools.main import COMMANDS, main

COMMAND_AT_EXIT = """
import atexit, gc, sys
atexit.register(lambda: print(len(gc.get_objects()) < 1000 < gc.get_freeze_count()))
from tileir.tools.main import main
sys.exit(main(["explain", "TIR0101"]))
"""


def test_a_process_ends_without_a_search_for_cycles():
    words = [sys.executable, "-c", COMMAND_AT_EXIT]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\nTrue\n")


def test_explain_prints_title_and_text(capsys):
    assert main(["explain", "TIR0101"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("TIR0101: operand type\n")


@pytest.mark.parametrize("code", ["tir0101", "101", "TIR0101"])
def test_codes_may_be_shortened(code):
    assert explanation(code).startswith("TIR0101")


def test_unknown_codes_are_refused(capsys):
    assert main(["explain", "TIR9999"]) == 1
    assert "TIR0901" in capsys.readouterr().err


def test_every_code_is_listed():
    assert len(listing().splitlines()) == len(CODES)


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


def test_a_run_names_the_metadata_that_it_does_not_read(capsys, tmp_path):
    text = "tir 1.0\nmetadata {run.gridd = [4]}\ndefine kernel void @k() {\nentry:\n  ret\n}\n"
    (tmp_path / "k.tir").write_text(text)
    words = ["run", str(tmp_path / "k.tir"), "--on", "interpreter"]
    assert main([*words, "--ptx", str(tmp_path / "k.ptx")]) == 0
    assert capsys.readouterr().err == "run.gridd has no effect: no launch reads it\n"


def test_a_missing_file_is_a_located_error(capsys, tmp_path):
    assert main(["run", str(tmp_path / "none.tir")]) == 1
    assert "TIR0904" in capsys.readouterr().err


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_an_access_outside_of_an_array_is_a_located_error(capsys, tmp_path, on):
    text = (Path(__file__).parents[2] / "examples/softmax.tir").read_text("utf-8")
    file = tmp_path / "softmax.tir"
    file.write_text(
        text.replace("[583]", "[2]").replace("f32[583, 931] n", "f32[1, 931] n"), "utf-8"
    )
    assert main(["run", "--on", on, str(file)]) == 1
    assert f"{file}:23:3: error[TIR0501]" in capsys.readouterr().err


def test_a_report_by_line(capsys, tmp_path):
    text = (Path(__file__).parents[2] / "examples/softmax.tir").read_text("utf-8")
    file = tmp_path / "softmax.tir"
    small = text.replace("[583]", "[1]").replace("f32[583, 931]", "f32[1, 931]")
    file.write_text(small, "utf-8")
    assert main(["run", "--on", "simt", "--report", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = next(i for i, line in enumerate(lines) if line.startswith("line  op"))
    assert [line.split()[1] for line in lines[heads + 1 : -1]].count("reduce") == 2
    assert main(["run", "--on", "interpreter", "--report", str(file)]) == 1
    assert "TIR0908" in capsys.readouterr().err


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "closed", "message"),
    [
        ("explain 101", ">&-", "TIR0905]: cannot write standard output: Bad file descriptor"),
        ("link $EXAMPLE", ">&-", "TIR0905]: cannot write standard output: Bad file descriptor"),
        ("link -", "<&-", "TIR0904]: cannot read standard input: Bad file descriptor"),
        ("explain 9999", "2>&-", ""),
    ],
)
def test_streams_that_are_closed_are_errors(words, closed, message):
    words = words.replace("$EXAMPLE", str(Path(__file__).parents[2] / "examples/relu.tir"))
    line = f"{sys.executable} -P -m tileir.tools.main {words} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and not done.stdout
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 2 * bool(message)


def test_a_cache_that_cannot_be_written_fails_no_run(capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    words = ["run", str(Path(__file__).parents[2] / "examples/relu.tir"), "--on", "interpreter"]
    assert main(words) == 0
    assert "PTX: none: cannot write /dev/null/tileir" in capsys.readouterr().out
    assert main([*words, "--ptx", "/dev/null/x"]) == 1


def test_a_locale_without_letters(tmp_path):
    """Output has escapes for them, and files whose names it cannot write are errors."""
    odd = tmp_path / "odd.tir"
    odd.write_text('tir 1.0\ndefine kernel void @"é"() {\nentry:\n  ret\n}\n', "utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOME": str(tmp_path)}
    plain = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"} | plain

    def ran(*words):
        command = [sys.executable, "-P", "-m", "tileir.tools.main", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=plain)

    done = ran("run", str(odd), "--on", "interpreter")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("@\\xe9 on interpreter")
    done = ran("link", str(odd), "-o", str(tmp_path / "é"))
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr


def test_an_interrupted_command_says_so_alone(capsys, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tileir.tools.explain.execute", interrupt)
    assert main(["explain"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    ("main_", "name"),
    [(main, "tileir.tools.main.parser"), (opt.main, "tileir.tools.opt_options.parser")],
)
def test_an_interrupt_before_the_arguments_are_read_is_no_traceback(
    main_, name, capsys, monkeypatch
):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(name, interrupt)
    assert main_(["explain"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_help_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tileir.tools.main", "--help"], stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
            env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
        )  # fmt: skip
    assert done.returncode == 1 and done.stderr.startswith("error[TIR0905]: cannot write standard")


def test_ptx_is_written_where_nothing_assembles(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        "tileir.backend.compiled_kernel.CompiledKernel.machine_code", property(lambda _: 1 / 0)
    )
    words = ["run", str(Path(__file__).parents[2] / "examples/relu.tir"), "--on", "interpreter"]
    assert main(words) == 0
    assert f"PTX: {tmp_path}/tileir/ptx/relu.sm_" in capsys.readouterr().out


def test_the_package_runs_as_a_module():
    words = [sys.executable, "-P", "-m", "tileir", "--version"]
    run = subprocess.run(words, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"tileir {tileir.__version__}\n")


@pytest.mark.parametrize("command", ["run", "aot", "tileir-opt"])
def test_commands_share_the_default_target(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(executors, "gpu_target", lambda: None)
    softmax = str(Path(__file__).parents[2] / "examples/add.tir")
    file = tmp_path / "add.ptx"
    if command == "run":
        assert main(["run", softmax, "--on", "interpreter", "--ptx", str(file)]) == 0
    elif command == "aot":
        assert main(["aot", softmax, "-o", str(tmp_path)]) == 0
        assert (tmp_path / f"add.{executors.DEFAULT_TARGET}.cubin").exists()
        return
    else:
        assert opt.main([softmax, "--emit", "ptx", "-o", str(file)]) == 0
    assert f".target {executors.DEFAULT_TARGET}\n" in file.read_text()


def test_tileir_opt_takes_options_of_the_compiler_and_a_kernel(tmp_path):
    add, file = str(Path(__file__).parents[2] / "examples/add.tir"), tmp_path / "add.ptx"
    words = ["--emit", "ptx", "--option", "num_warps=2", "--kernel", "add", "-o", str(file)]
    assert opt.main([add, *words]) == 0
    assert ".reqntid 64\n" in file.read_text()
    assert opt.main([add, "--emit", "ptx", "--kernel", "nothing"]) == 1


def test_tileir_opt_says_its_version(capsys):
    with pytest.raises(SystemExit) as stop:
        opt.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"tileir-opt {tileir.__version__}\n"


@pytest.mark.parametrize(("word", "coloured"), [(None, True), ("", True), ("1", False)])
def test_errors_have_colours_unless_the_user_wants_none(word, coloured, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    if word is not None:
        monkeypatch.setenv("NO_COLOR", word)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(["explain", "TIR9999"]) == 1
    assert ("\x1b[" in screen.getvalue()) == coloured


RELU = str(Path(__file__).parents[2] / "examples/relu.tir")


@pytest.mark.parametrize("command", ["run", "aot", "view", "tune", "tileir-opt"])
def test_commands_that_compile_share_their_options(command, capsys):
    words = {"view": ["view", "cfg"], "tileir-opt": []}.get(command, [command])
    main_ = opt.main if command == "tileir-opt" else main
    with pytest.raises(SystemExit) as stop:
        main_([*words, RELU, "--option", "num_warps"])
    assert stop.value.code == 2
    text = capsys.readouterr().err
    assert "an option is NAME=VALUE, not 'num_warps'" in text
    assert all(word in text for word in ("--kernel", "--target SM", "--option NAME=VALUE"))


def test_unknown_options_show_the_usage_of_the_subcommand(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["run", RELU, "--foo"])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("usage: tileir run ") and "arguments: --foo" in message


@pytest.mark.parametrize(
    ("name", "hint"),
    [("simplfy", "did you mean simplify"), ("qqq", "there are: allocate-shared, assign-")],
)
def test_unknown_passes_have_a_hint(name, hint, capsys):
    assert opt.main([RELU, "-p", name]) == 1
    assert f"no pass is called '{name}'; {hint}" in capsys.readouterr().err


def test_options_reach_what_runs_and_what_is_compiled(tmp_path, capsys):
    file = tmp_path / "relu.ptx"
    words = ["run", RELU, "--on", "simt", "--option", "num_warps=2", "--target", "sm_80"]
    assert main([*words, "--ptx", str(file)]) == 0
    assert ".reqntid 64\n" in file.read_text() and ".target sm_80\n" in file.read_text()
    capsys.readouterr()
    assert main(["run", RELU, "--on", "interpreter", "--option", "warps=2"]) == 1
    assert "TIR0716" in capsys.readouterr().err


def test_tables_are_json_for_programs(tmp_path, capsys):
    assert main(["run", RELU, "--on", "simt", "--report", "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kernel"], record["on"], record["grid"]) == ("relu", "simt", [5, 13])
    (result,) = record["results"]
    assert (result["result"], result["error"], result["verdict"]) == ("a", 0.0, "ok")
    loads = [row for row in record["report"] if row["op"] == "load"]
    assert loads and all(row["sectors"] >= row["ideal"] > 0 for row in loads)
    assert all(isinstance(row["sectors"], int) for row in record["report"])
    path = tmp_path / "out.json"
    assert main(["run", RELU, "--on", "interpreter", "--json", str(path)]) == 0
    assert json.loads(path.read_text())["results"] == [result]
    assert " ok\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["explain", "--json", "-"], "examples"),
        (["aot", RELU, "--target", "sm_80", "-o", "OUT", "--json", "-"], "bytes"),
        (["tileir-opt", "--list-passes", "--json", "-"], "passes"),
        (["tileir-opt", RELU, "-p", "cse", "--timing", "--json", "OUT/x", "-o", "OUT/y"], "timing"),
        (["tune", "--list", "--database", ":memory:", "--json", "-"], ""),
        (["tune", RELU, "--dry-run", "--processes", "1", "--database", ":memory:", "--json", "-"],
         "candidates"),
    ],
    ids=lambda words: " ".join(words[:2]).rpartition("/")[2] if isinstance(words, list) else "",
)  # fmt: skip
def test_every_table_has_json(words, key, tmp_path, capsys):
    words = [re.sub("^OUT", str(tmp_path), word) for word in words]
    assert (opt.main(words[1:]) if words[0] == "tileir-opt" else main(words)) == 0
    shown = capsys.readouterr().out or (tmp_path / "x").read_text()
    assert isinstance(json.loads(shown), (list, dict)) and key in shown


def test_tune_compiles_with_the_options_given(capsys):
    words = ["tune", RELU, "--database", ":memory:"]
    assert main([*words, "--dry-run", "--processes", "1", "--option", "max_registers=64"]) == 0
    assert main([*words, "--dry-run", "--option", "warps=2"]) == 1
    assert "no option warps" in capsys.readouterr().err
    assert main([*words, "--on", "cpu", "--option", "num_warps=2"]) == 1
    assert "TIR0716" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shell", "begins"), [("bash", "# AUTOM"), ("zsh", "#compdef"), ("tcsh", "#")]
)
@pytest.mark.parametrize("program", ["tileir", "tileir-opt"])
def test_shells_complete_commands_and_options(shell, begins, program, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell, "--program", program]) == 0
    script = capsys.readouterr().out
    assert script.startswith(begins)
    options = ["option", "json", "target"]
    assert all(word in script for word in options)
    assert program == "tileir-opt" or all(name in script for name in COMMANDS)


def test_completion_says_what_it_needs(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "TIR0906" in capsys.readouterr().err
