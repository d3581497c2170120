"""Every example runs, agrees with numpy, and is written as the printer writes it."""

from pathlib import Path

import pytest

import tileir
from tileir.textual import parse, print_module
from tileir.tools.main import main

FOLDER = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(FOLDER.glob("*.tir"))


@pytest.fixture
def ptx(tmp_path) -> str:
    return str(tmp_path / "kernel.ptx")


def test_the_examples_are_there():
    names = {path.stem for path in FILES}
    assert {"add", "relu", "softmax", "matmul", "layer_norm"} <= names


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_run_in_the_interpreter_and_agree_with_numpy(path, capsys, ptx):
    assert main(["run", str(path), "--on", "interpreter", "--ptx", ptx]) == 0
    out = capsys.readouterr().out
    assert " ok" in out and "WRONG" not in out
    assert ".entry" in Path(ptx).read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_are_printed_as_they_are_written(path):
    text = path.read_text()
    assert print_module(parse(text)) == text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_assemble(path):
    module = parse(path.read_text())
    for target in ("sm_80", "sm_90a"):
        assert tileir.backend.compile(module, target=target).cubin


def write_changed_example(tmp_path, old, new) -> str:
    text = (FOLDER / "add.tir").read_text()
    assert old in text
    path = tmp_path / "changed.tir"
    path.write_text(text.replace(old, new))
    return str(path)


def test_the_main_job_prints_the_result_with_numpy(capsys, ptx):
    main(["run", str(FOLDER / "softmax.tir"), "--ptx", ptx])
    out = capsys.readouterr().out
    assert "583x931" in out and "softmax(x)" in out and f"PTX: {ptx}" in out


def test_a_wrong_kernel_is_caught(tmp_path, capsys, ptx):
    path = write_changed_example(tmp_path, "fadd f32<512> %a, %b", "fsub f32<512> %a, %b")
    assert main(["run", path, "--on", "interpreter", "--ptx", ptx]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_a_store_that_is_left_out_is_caught(tmp_path, capsys, ptx):
    path = write_changed_example(tmp_path, "  store %pz, %sum, %in\n", "")
    assert main(["run", path, "--on", "interpreter", "--ptx", ptx]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_an_access_out_of_bounds_is_shown_at_its_line(tmp_path, capsys, ptx):
    path = write_changed_example(
        tmp_path, "%a = load f32<512> %px, %in, 0.0", "%a = load f32<512> %px"
    )
    assert main(["run", path, "--on", "interpreter", "--ptx", ptx]) == 1
    err = capsys.readouterr().err
    assert "%a = load f32<512> %px" in err and "changed.tir:" in err


def test_unknown_executors_are_refused(capsys):
    assert main(["run", str(FOLDER / "add.tir"), "--on", "abacus"]) == 1
    assert "abacus" in capsys.readouterr().err


def test_modules_are_linked(tmp_path, capsys):
    caller = tmp_path / "caller.tir"
    caller.write_text(
        "tir 1.0\n\ndeclare i32 @twice(i32 %x)\n\ndefine kernel void @k(i32* %p) {\nentry:\n"
        "  %x = load i32 %p\n  %y = call i32 @twice, %x\n  store %p, %y\n  ret\n}\n"
    )
    callee = tmp_path / "callee.tir"
    callee.write_text(
        "tir 1.0\n\ndefine i32 @twice(i32 %x) {\nentry:\n  %y = add i32 %x, %x\n  ret %y\n}\n"
    )
    out = tmp_path / "linked.tir"
    assert main(["link", str(caller), str(callee), "-o", str(out)]) == 0
    module = parse(out.read_text())
    assert not module.functions["twice"].is_declaration
    assert set(module.functions) == {"k", "twice"}
