"""Every option of a command has an effect: two command lines that differ in it alone do not have
the same outcome."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from tileir.tools import main as tool, opt, opt_bisect, opt_options

ADD = """tir 1.0
define kernel void @add(f32* %x, f32* %y, f32* %z) {
entry:
  %r = make_range i32<64>
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %r
  %a = load f32<64> %p
  %ys = splat f32*<64> %y
  %q = getelementptr f32*<64> %ys, %r
  %b = load f32<64> %q
  %c = fadd f32<64> %a, %b
  %zs = splat f32*<64> %z
  %o = getelementptr f32*<64> %zs, %r
  store %o, %c
  ret
}
"""
RUN = f"""{ADD}
metadata {{
  run.x = "f32[64] normal",
  run.y = "f32[64] normal",
  run.z = "f32[64]",
  expect.z = "add(x, y)"
}}
"""
FAR = RUN.replace('"add(x, y)"', '"relu(x)", within.z = 99.0')
"""The error that is shown depends on the inputs."""
TWO = f"{ADD}{ADD.replace('tir 1.0', '').replace('@add', '@sub').replace('fadd', 'fsub')}"
SPLIT = f"{ADD}; -----\n{ADD}"
EXPECTED = ADD.replace("%c = fadd", "; expected-error@+1 {{no value}}\n  %c = fadd")
COUNTS = """tir 1.0
define kernel void @counts(i32* %x, i1 %on) {
entry:
  %r = make_range i32<64>
  %m = splat i1<64> %on
  %h = histogram i32<64> %r, %m
  %xs = splat i32*<64> %x
  %p = getelementptr i32*<64> %xs, %r
  store %p, %h
  ret
}
"""
WITHOUT_LAYOUTS = "--command 'sh -c \"! grep -q lane {}\"'"
BISECT = f"run.tir {WITHOUT_LAYOUTS}"
DOT = """tir 1.0
metadata { run.x = "f16[64, 64] normal", run.y = "f32[64, 64]" }
define kernel void @square(f16* aligned(16) %x, f32* aligned(16) %y) {num_warps = 4} {
entry:
  %r = make_range i32<64>
  %rows = expand_dims i32<64, 1> %r {axis = 1}
  %columns = expand_dims i32<1, 64> %r {axis = 0}
  %scaled = mul i32<64, 1> %rows, 64
  %i = broadcast i32<64, 64> %scaled
  %j = broadcast i32<64, 64> %columns
  %offsets = add i32<64, 64> %i, %j
  %xs = splat f16*<64, 64> %x
  %p = getelementptr f16*<64, 64> %xs, %offsets
  %v = load f16<64, 64> %p
  %c = dot f32<64, 64> %v, %v, 0.0
  %ys = splat f32*<64, 64> %y
  %q = getelementptr f32*<64, 64> %ys, %offsets
  store %q, %c
  ret
}
"""
FILES = {
    "add.tir": ADD, "run.tir": RUN, "far.tir": FAR, "counts.tir": COUNTS, "dot.tir": DOT,
    "two.tir": TWO,
    "split.tir": SPLIT, "expected.tir": EXPECTED,
    "masked.tir": (Path(__file__).parents[2] / "examples/add.tir").read_text(),
}  # fmt: skip

CASES = {
    "run": {
        "--on": ("run run.tir --on interpreter", "--on simt"),
        "--report": ("run run.tir --on simt", "--report"),
        "--seed": ("run far.tir --on interpreter", "--seed 1"),
        "--kernel": ("run run.tir --on interpreter", "--kernel sub"),
        "--target": ("run run.tir --on interpreter --ptx out/x.ptx", "--target sm_80"),
        "--target of the simulator": ("run dot.tir --on simt --report", "--target sm_90a"),
        "--option": ("run run.tir --on interpreter --ptx out/x.ptx", "--option num_warps=2"),
        "--ptx": ("run run.tir --on interpreter", "--ptx out/x.ptx"),
        "--remarks": ("run run.tir --on interpreter", "--remarks"),
        "--json": ("run run.tir --on interpreter", "--json out/x"),
        "--limit": ("run run.tir --on interpreter", "--limit tile_elements=8"),
    },
    "aot": {
        "--kernel": ("aot two.tir --kernel add -o out", "--kernel sub"),
        "--target": ("aot add.tir -o out", "--target sm_80"),
        "--option": ("aot add.tir -o out", "--option num_warps=2"),
        "--output": ("aot add.tir -o out", "-o out/below"),
        "--serialized": ("aot add.tir -o out", "--serialized"),
        "--json": ("aot add.tir -o out", "--json out/x"),
        "--limit": ("aot add.tir -o out", "--limit tile_elements=8"),
    },
    "link": {"--output": ("link add.tir", "-o out/x")},
    "export-ttir": {
        "--release": ("export-ttir counts.tir", "--release 3.3"),
        "--output": ("export-ttir add.tir", "-o out/x"),
        "--effects": ("export-ttir add.tir", "--effects"),
    },
    "reduce": {
        "--predicate": ("reduce add.tir --predicate true", "--predicate false"),
        "--output": ("reduce add.tir --predicate true --corpus out", "-o out/x"),
        "--corpus": ("reduce add.tir --predicate true -o out/x", "--corpus out"),
        "--tries": ("reduce add.tir --predicate 'grep -q fadd {}'", "--tries 1"),
    },
    "tileir-opt": {
        "--dialect": ("add.tir", "--dialect mapl19"),
        "--pipeline": ("add.tir", "-p allocate-shared"),
        "--output": ("add.tir", "-o out/x"),
        "--emit": ("add.tir", "--emit ptx"),
        "--kernel": ("two.tir --emit ptx --kernel add", "--kernel sub"),
        "--target": ("add.tir --emit ptx", "--target sm_80"),
        "--option": ("add.tir --emit ptx", "--option num_warps=2"),
        "--limit": ("add.tir --emit ptx", "--limit tile_elements=8"),
        "--print-before": ("add.tir -p cse,dce", "--print-before dce"),
        "--print-after": ("add.tir -p cse,dce", "--print-after cse"),
        "--print-before-all": ("add.tir -p cse,dce", "--print-before-all"),
        "--print-after-all": ("add.tir -p cse,dce", "--print-after-all"),
        "--print-changed": ("add.tir -p assign-layouts", "--print-changed"),
        "--timing": ("add.tir -p cse", "--timing"),
        "--stats": ("masked.tir -p version-full-tiles", "--stats"),
        "--line-info": ("add.tir --emit ptx", "--line-info"),
        "--remarks": ("add.tir --emit ptx", "--remarks"),
        "--list-passes": ("add.tir", "--list-passes"),
        "--json": ("add.tir --list-passes", "--json out/x"),
        "--split-input": ("split.tir", "--split-input"),
        "--verify-diagnostics": ("expected.tir", "--verify-diagnostics"),
    },
    "bisect": {
        "--pipeline": (f"{BISECT} -p cse", "-p cse,assign-layouts"),
        "--command": ("run.tir -p cse,assign-layouts", WITHOUT_LAYOUTS),
        "--output": (f"{BISECT} -p assign-layouts", "-o out/x"),
    },
}  # fmt: skip
"""By command and option: a command line, and what is added."""

ELSEWHERE = {
    "--time-limit": "tests/backend/cpu/test_stopping.py",
    "--seconds": "tests/tools/test_arguments.py",
    "--timeout": "tests/tools/test_arguments.py",
    "--within": "tests/tools/test_opt_failures.py",
    "--seed": "tests/tools/test_opt_failures.py",
    "--no-verify": "tests/tools/test_opt.py",
    "--no-isolate": "tests/limits/test_limits.py",
    "--reproducer": "tests/tools/test_opt_failures.py",
    "--run-reproducer": "tests/tools/test_opt_failures.py",
}
"""Options that need a clock, or a pass that fails, with the tests that have one."""


def parsers():
    """The parser of every command of `CASES`."""
    result = {"tileir-opt": opt_options.parser(), "bisect": opt_bisect.parser()}
    for name in CASES.keys() - result.keys():
        actions = tool.parser([name])._actions
        (subs,) = (a for a in actions if isinstance(a, argparse._SubParsersAction))
        result[name] = subs.choices[name]
    return result


def test_every_option_has_a_case():
    for name, parser in parsers().items():
        options = {a.option_strings[-1] for a in parser._actions if a.option_strings}
        cases = {case.split()[0] for case in CASES[name]}
        covered = cases | ELSEWHERE.keys() | {"--help", "--version"}
        assert options <= covered and cases <= options, (name, options - covered)
    for option, file in ELSEWHERE.items():
        assert option in (Path(__file__).parents[2] / file).read_text(), option


def outcome(command, line, folder, capsys):
    """Status, output without times, and files."""
    words = shlex.split(line)
    if command in ("tileir-opt", "bisect"):
        run = lambda: opt.main(["bisect"] * (command == "bisect") + words)  # noqa: E731
    else:
        run = lambda: tool.main(words)  # noqa: E731
    try:
        status = run()
    except SystemExit as stop:
        status = stop.code
    written = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for path in written:
        (folder / path).unlink()
    shown = [re.sub(r"\d+\.\d+ m?s|PTX: .*", "", text) for text in capsys.readouterr()]
    return status, shown, written


@pytest.mark.parametrize(
    ("command", "option"), [(c, o) for c, options in CASES.items() for o in options]
)
def test_an_option_has_an_effect(command, option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    folder = tmp_path / "out"
    folder.mkdir()
    line, added = CASES[command][option]
    words = {word for a in parsers()[command]._actions for word in a.option_strings
             if a.option_strings[-1] == option.split()[0]}  # fmt: skip
    assert shlex.split(added)[0] in words
    without = outcome(command, line, folder, capsys)
    changed = outcome(command, f"{line} {added}", folder, capsys)
    assert changed != without and 0 in (changed[0], without[0])
    assert outcome(command, line, folder, capsys) == without
