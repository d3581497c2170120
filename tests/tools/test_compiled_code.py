"""`tools/compiled_code.py` writes the code of kernels, and finds where two versions differ."""

import pytest

from tests.sources import ROOT
from tileir.tools import compiled_code

KERNELS = ROOT / "benchmarks" / "compiled_kernels.py"
"""Of the checkout: an installed package has no benchmarks."""


@pytest.fixture(scope="module")
def recorded_folder(tmp_path_factory):
    """The code of one kernel for two GPUs and the CPU."""
    folder = tmp_path_factory.mktemp("before")
    compiled_code.record(folder, ["examples/relu"], compiled_code.listed_kernels(KERNELS))
    return folder


def test_every_kernel_has_a_name_of_its_own():
    names = [kernel.name for kernel in compiled_code.listed_kernels(KERNELS)]
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names} == {"benchmarks", "examples", "tests"}


def test_a_file_has_the_module_after_each_pass_then_the_code(recorded_folder):
    files = {path.stem.rsplit("_", 1)[-1]: path for path in recorded_folder.rglob("*.txt")}
    assert set(files) == {"90a", "80", "cpu"}
    parts = [heading for heading, _ in compiled_code.parts_of(files["90a"].read_text())]
    assert "after assign-layouts of @relu" in parts
    assert parts[-3:] == ["remarks", "llvm", "ptx"]
    parts = [heading for heading, _ in compiled_code.parts_of(files["cpu"].read_text())]
    assert parts[-1] == "llvm"


def test_the_same_code_does_not_differ(recorded_folder):
    assert compiled_code.compare(recorded_folder, recorded_folder) == 0


def test_the_first_part_that_differs_is_named(recorded_folder, tmp_path, capsys):
    for path in recorded_folder.rglob("*.txt"):
        copy = tmp_path / path.relative_to(recorded_folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text()
        if "_sm_80" in path.name:
            head, ptx = text.split("====== ptx", 1)
            text = head + "====== ptx" + ptx.replace("ret;", "exit;")
        copy.write_text(text)
    assert compiled_code.compare(recorded_folder, tmp_path) == 1
    printed = capsys.readouterr().out
    assert "relu_sm_80.txt: ptx: 1 lines" in printed
    assert "1 of 3 kernels differ, 1 of them in generated code" in printed


def test_a_kernel_of_one_folder_only_differs(recorded_folder, tmp_path, capsys):
    assert compiled_code.compare(recorded_folder, tmp_path) == 3
    assert "not in" in capsys.readouterr().out


def test_a_kernel_that_does_not_compile_is_recorded_with_its_error():
    text = "tir 1.0\n\ndefine kernel void @k() {\nentry:\n  ret\n}\n"

    def make():
        return compiled_code.textual.parse(text)

    code = compiled_code.code_of(compiled_code.Kernel("k", make, "sm_90a", "absent", {}))
    ((heading, lines),) = compiled_code.parts_of(code)
    assert heading == "error"
    assert "absent" in "".join(lines)


def test_a_list_that_is_missing_is_named(tmp_path, monkeypatch, capsys):
    missing = tmp_path / "none.py"
    arguments = ["compiled_code", "record", str(tmp_path), "--kernels", str(missing)]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as caught:
        compiled_code.main()
    assert caught.value.code == 2
    assert str(missing) in capsys.readouterr().err
