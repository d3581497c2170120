"""The wheel holds what the folders hold, under the names it is imported by."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("builder", "textual", "backend", "frontends", "tools", "testing")
PLUGIN = "tileir_triton"
SHIPPED = {".py", ".tir", ".typed", ".pyi", ".lark"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel built from a copy of the checkout, so that the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source")
    for part in ("tileir", *PARTS, PLUGIN):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, source / part, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = tmp_path_factory.mktemp("wheel")
    command = ["wheel", "--no-build-isolation", "--no-deps", "-w", str(built), str(source)]
    subprocess.run([sys.executable, "-m", "pip", "-q", *command], check=True)
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.slow
def test_every_file_of_the_folders_is_in_the_wheel(wheel):
    expected = {
        ("tileir/" if part in PARTS else "") + path.relative_to(ROOT).as_posix()
        for part in ("tileir", *PARTS, PLUGIN)
        for path in (ROOT / part).rglob("*")
        if path.suffix in SHIPPED
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == expected


def test_every_package_folder_says_that_it_is_one():
    for part in ("tileir", *PARTS, PLUGIN):
        for path in (ROOT / part).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path.parent


def test_commands_and_extras_are_declared(wheel):
    (scripts,) = (n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    declared = wheel.read(scripts).decode()
    assert "tileir-opt = tileir.tools.opt:main" in declared
    assert "[triton.backends]\ncpu = tileir_triton.cpu\ntileir = tileir_triton\n" in declared
    (meta,) = (n for n in wheel.namelist() if n.endswith("METADATA"))
    text = wheel.read(meta).decode()
    for extra in ("cu12", "cu13", "frontends", "triton", "test", "bench"):
        assert f"Provides-Extra: {extra}" in text
    assert "License-Expression: MIT" in text


def test_llvm_is_not_needed_by_the_core(wheel):
    (meta,) = (n for n in wheel.namelist() if n.endswith("METADATA"))
    needed = [
        line
        for line in wheel.read(meta).decode().splitlines()
        if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]
    assert sorted(line.split()[1].split(">")[0] for line in needed) == [
        "attrs",
        "ml_dtypes",
        "numpy",
    ]
