"""What a program says reaches nothing but itself: errors open no files that it names, terminals see
no control characters, and what the compiler notes for itself is not believed."""

import json
import os
import unicodedata

import numpy as np
import pytest

from tileir.builder import Builder
from tileir.errors import Diagnostic, Location, TileirError, escape
from tileir.render import render, render_error
from tileir.textual import parse
from tileir.tools.main import main

PROGRAM = """tir 1.0

metadata {{
  run.grid = [1],
  run.x = "f32[8] normal"
}}

define kernel void @k(f32* %x) {{
entry:
  %p = getelementptr f32* %x, i32 100
  store %p, 1.0 loc("{file}":1:1)
  ret
}}
"""


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text("a password\n")
    return path


def test_an_error_quotes_no_file_that_a_program_names(tmp_path, secret, capsys):
    program = tmp_path / "k.tir"
    program.write_text(PROGRAM.format(file=secret))
    assert main(["run", str(program), "--on", "interpreter"]) == 1
    shown = capsys.readouterr()
    assert f"{secret}:1:1: error[TIR0501]" in shown.err
    assert "password" not in shown.err + shown.out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_that_a_program_names_is_not_waited_for(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = tmp_path / "k.tir"
    program.write_text(PROGRAM.format(file=pipe))
    assert main(["run", str(program), "--on", "interpreter"]) == 1
    assert "TIR0501" in capsys.readouterr().err


def test_rendering_opens_nothing(secret, monkeypatch):
    monkeypatch.setattr("builtins.open", None)
    monkeypatch.setattr("pathlib.Path.open", None)
    result = render(Diagnostic("TIR0501", "wrong", Location(str(secret), 1, 1)))
    assert result == f"{secret}:1:1: error[TIR0501]: wrong"


def test_the_program_itself_is_quoted(tmp_path, capsys):
    program = tmp_path / "k.tir"
    program.write_text("tir 1.0\n\ndefine kernel void @k() {\nentry:\n  what\n}\n")
    assert main(["run", str(program)]) == 1
    assert "    5 |   what\n" in capsys.readouterr().err


HOSTILE = [chr(n) for n in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0))]
HOSTILE += list("\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069")


@pytest.mark.parametrize("character", HOSTILE, ids=lambda c: f"{ord(c):04x}")
def test_control_characters_are_escaped(character):
    at = Location(f"a{character}b", 1, 1)
    inner = Diagnostic("TIR0001", f"also {character}", at)
    error = TileirError(Diagnostic("TIR0001", f"name {character}]0;x", at, notes=(inner,)))
    texts = {at.file: f"{character}text"}
    for shown in (str(error), render_error(error, texts), error.diagnostics[0].message):
        assert character not in shown


def test_names_of_kernels_reach_no_terminal(tmp_path, capsys):
    program = tmp_path / "k.tir"
    name = "\\u001b]0;OWNED\\u0007\\u001b[31mred\\u202e\\u0085"
    program.write_text(f'tir 1.0\ndefine kernel void @"{name}"(f32* %x) {{\nentry:\n  ret\n}}\n')
    good = tmp_path / "good.tir"
    head = "metadata {\n  run.grid = [1]\n}\n"
    good.write_text(f'tir 1.0\n{head}define kernel void @"{name}"() {{\nentry:\n  ret\n}}\n')
    for command in (["run", str(program)], ["run", str(good), "--on", "interpreter"]):
        main(command)
        shown = "".join(capsys.readouterr())
        assert "red" in shown
        assert not [c for c in shown if c != "\n" and unicodedata.category(c) in ("Cc", "Cf")]


def test_escapes_leave_other_text():
    assert escape("größe 3\nα") == "größe 3\nα"
    assert escape(escape("\x1b")) == "\\x1b"


@pytest.mark.parametrize("name", ["host.plan0", "host.guard0", "host.tensor_map7", "host.x"])
@pytest.mark.parametrize("value", ['"[]"', '"{}"', "1", "[1, 2]", "true", '"' + "[" * 5000 + '"'])
def test_reserved_metadata_is_refused_where_it_stands(name, value):
    text = f"tir 1.0\n\nmetadata {{\n  run.grid = [1],\n  {name} = {value}\n}}\n"
    with pytest.raises(TileirError) as caught:
        parse(text)
    assert caught.value.code == "TIR0339"
    assert (caught.value.line, caught.value.column) == (5, 3)


def test_reserved_metadata_of_a_builder_is_refused():
    b = Builder(metadata={"host.plan0": "[]"})
    with b.kernel("k"):
        pass
    with pytest.raises(TileirError) as caught:
        b.module()
    assert caught.value.code == "TIR0339"
    assert caught.value.location.file.endswith("test_untrusted.py")


def test_what_another_compilation_noted_is_not_believed():
    from tileir.backend.compile import compile as compiled
    from tileir.backend.executors import SimtExecutor

    module = parse("tir 1.0\ndefine kernel void @k(f32* %x) {\nentry:\n  store %x, 1.0\n  ret\n}\n")
    module = module.evolve(metadata={"host.plan0": "[]", "host.guard1": 5})
    assert compiled(module, target="sm_90a").metadata.host_plan == ()
    x = np.zeros(1, np.float32)
    SimtExecutor().launch(module, "k", 1, [x])
    assert x[0] == 1


def _change_part(node, chance):
    """`node` with one part of it replaced."""
    odd = [None, -1, 5, 1.5, "x", [], {}, [[5]], True, 10**30, "\ud800"]
    if isinstance(node, dict) and node and chance.random() < 0.9:
        key = chance.choice(list(node))
        changed = dict(node)
        if chance.random() < 0.15:
            del changed[key]
        else:
            changed[key] = _change_part(node[key], chance)
        return changed
    if isinstance(node, list) and node and chance.random() < 0.9:
        at = chance.randrange(len(node))
        return [*node[:at], _change_part(node[at], chance), *node[at + 1 :]]
    return chance.choice(odd)


def test_damaged_kernels_are_refused_or_work():
    import hashlib
    import random

    from tileir.backend.compile import compile as compiled
    from tileir.backend.runtime.format import dumps, loads

    module = parse("tir 1.0\ndefine kernel void @k(f32* %x) {\nentry:\n  store %x, 1.0\n  ret\n}\n")
    magic, _, body = dumps(compiled(module, target="sm_90a")).split(b"\n", 2)
    line, rest = body.split(b"\n", 1)
    header = json.loads(line)

    def read(text):
        whole = text + b"\n" + rest
        digest = hashlib.sha256(whole).hexdigest().encode()
        kernel = loads(b"\n".join((magic, digest, whole)))
        return [kernel.metadata.arguments, kernel.ptx, kernel.llvm, *kernel.stages.items()]

    assert read(line)
    texts = [b"[" * 100000, b'{"a":' * 100000, b"1", b"null", b'"x"', b"[]", b"{}", b"\xff"]
    chance = random.Random(7)
    texts += [json.dumps(_change_part(header, chance)).encode() for _ in range(600)]
    refused = 0
    for text in texts:
        try:
            read(text)
        except TileirError as error:
            refused += error.code == "TIR0715"
    assert refused > 300
