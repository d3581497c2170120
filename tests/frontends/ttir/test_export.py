"""Modules written as TTIR mean what they meant, and what TTIR has no form for is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tileir import Location, interpret
from tileir.builder import F32, I1, I32, Builder
from tileir.frontends.ttir import read
from tileir.frontends.ttir.export import RELEASES, ExportError, argument_effects, export
from tileir.textual import parse
from tileir.tools.main import main

from .test_versions import CASES, FILES, A

NEWEST = [p for p in FILES if p.parent.name == "3.9.0" or "3.6.0/blockptr" in str(p)]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", NEWEST, ids=lambda p: p.stem)
def test_a_text_that_is_written_again_means_the_same(path):
    text = path.read_text()
    if path.stem == "control":  # the interpreter runs no PTX
        lines = [
            line if "tt.elementwise_inline_asm" not in line else _absolute(line)
            for line in text.splitlines()
        ]
        text = "\n".join(lines)
    module = read(export(read(text)), path.name)
    grid, arguments, out, expected = CASES[path.stem]
    values = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    interpret(module, None, grid, values)
    if path.stem == "desc":
        assert (values[1].reshape(-1)[:32] == A[0, 32:]).all()
    else:
        np.testing.assert_allclose(values[out], expected, rtol=2e-3, atol=1e-5)


def _absolute(line):
    """A move of values that are not negative, as their size."""
    result, operand = line.split("=")[0], line.rpartition("} ")[2].split(" : ")[0]
    return f"{result}= math.absf {operand} : tensor<128xf32>"


@pytest.mark.sampled(21)
@pytest.mark.parametrize("release", RELEASES[1:])
@pytest.mark.parametrize("path", NEWEST, ids=lambda p: p.stem)
def test_every_release_has_a_text_that_is_read(path, release):
    text = export(read(path.read_text()), release)
    assert read(text).kernel().name == read(path.read_text()).kernel().name


def test_inline_assembly_and_its_constraints_are_written():
    (path,) = (p for p in NEWEST if p.stem == "control")
    text = export(read(path.read_text()))
    assert '"mov.b32 $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, pure = true}' in text


TEXTS = (
    "plain",
    'a "quoted" word',
    "back\\\\slash \\22",
    "two\nlines\tand more",
    "größer → 7",
    "100%: x",
)


@pytest.mark.parametrize("words", TEXTS)
def test_texts_in_quotes_are_read_as_they_were(words):
    """Messages, prefixes, names of libraries and files of any characters."""
    builder = Builder()
    with (
        builder.kernel("f", c=I1, n=I32, x=F32) as (c, n, x),
        builder.at_location(Location(words, 4, 2)),
    ):
        builder.assert_(c, message=words)
        builder.print([n], prefix=words, unsigned=True)
        builder.extern_elementwise(F32, [x], symbol="g", library=words)
    ops = read(export(builder.module())).kernel().ops
    condition, shown, called = (
        op for op in ops if op.mnemonic in ("assert", "print", "extern_elementwise")
    )
    assert (condition.message, shown.prefix, shown.unsigned) == (words, words, True)
    assert (called.symbol, called.library) == ("g", words)
    assert (condition.location.file, condition.location.line) == (words, 4)


def test_descriptors_are_written_as_each_release_reads_them():
    (path,) = (p for p in NEWEST if p.stem == "desc")
    module = read(path.read_text())
    assert "tt.experimental_descriptor_load" in export(module, "3.3")
    assert "!tt.tensordesc<tensor<16x32xf16>>" in export(module, "3.7")
    assert "!tt.tensordesc<16x32xf16>" in export(module, "3.8")


KERNEL = """\
tir 1.0

define kernel void @f(f32* %x, f32 %s) {{
entry:
  {}
  ret
}}
"""


FUNCTIONS = """
define noinline (f32, f32) @both(f32 %s) {
entry:
  ret %s, %s
}

define noinline f32 @twice(f32 %s) {
entry:
  %r = fadd f32 %s, %s
  ret %r
}

define noinline void @put(f32* %x, f32 %s) {
entry:
  store %x, %s
  ret
}
"""


def test_calls_are_written_with_and_without_a_result():
    line = "%r = call f32 @twice, %s\n  call @put, %x, %r"
    module = parse(KERNEL.format(line) + FUNCTIONS.partition("}")[2])
    text = export(module)
    assert re.search(r"= tt.call @twice\(%\w+\) : \(f32\) -> f32", text)
    assert re.search(r"tt.call @put\(%\w+, %\w+\) : \(!tt.ptr<f32>, f32\) -> \(\)", text)
    x = np.zeros(1, np.float32)
    interpret(read(text), "f", 1, [x, 3.5])
    assert x[0] == 7


@pytest.mark.parametrize(
    ("line", "release", "message"),
    [
        ("%r = make_range i32<12>", "3.9", "an extent that is not a power of two"),
        ("%v = load f32 %x\n  %t = tanh f32 %v\n  %c = clock i64", "3.9", "no op for clock"),
        ("%c = fadd f32 %s, %s {rounding = rz}", "3.9", "fadd with rounding rz"),
        ("%c, _ = icmp (i1, i1) %x, %x {predicate = eq}", "3.9", "TTIR compares no pointers"),
        ('%r = extern_elementwise f32 %s {symbol = "g", pure = false}', "3.9", "g has effects"),
        ("%a, %b = call (f32, f32) @both, %s", "3.9", "a call with several results"),
        ("%v = atomic_load f32 %x", "3.8", "Triton 3.8 has no op for atomic_load"),
    ],
)
def test_what_ttir_cannot_say_is_refused_at_its_line(line, release, message):
    with pytest.raises(ExportError, match=message) as caught:
        export(parse(KERNEL.format(line) + FUNCTIONS, "f.tir"), release)
    assert caught.value.code == "TIR1006"
    assert caught.value.line == 5 + line.count("\n")


def test_an_unknown_release_is_refused():
    with pytest.raises(ExportError, match=r"no TTIR of Triton 2\.1: 3\.3 to 3\.9"):
        export(parse(KERNEL.format("")), "2.1")


def test_accurate_functions_stay_accurate():
    line = "%e = exp f32 %s\n  %a = exp f32 %s {fast = approx}\n  %q = fdiv f32 %e, %a"
    text = export(parse(KERNEL.format(line)))
    assert 'symbol = "__nv_expf"' in text
    assert "math.exp %1 : f32" in text
    assert "tt.precise_divf" in text


def test_effects_are_those_of_each_argument():
    module = parse((ROOT / "examples" / "add.tir").read_text())
    effects = argument_effects(module.kernel())
    assert dict(effects) == {"x": ("read",), "y": ("read",), "z": ("write",)}


def test_the_command_writes_a_text_or_the_effects(tmp_path, capsys):
    example, out = str(ROOT / "examples" / "add.tir"), tmp_path / "add.ttir"
    assert main(["export-ttir", example, "--release", "3.6", "-o", str(out)]) == 0
    assert read(out.read_text()).kernel().name == "add"
    assert main(["export-ttir", example, "--effects"]) == 0
    assert json.loads(capsys.readouterr().out)["add"]["z"] == ["write"]
    assert main(["export-ttir", example, "--release", "9.9"]) == 1
