"""The wheel holds what the folders hold, under the names it is imported by, and the source
distribution makes that wheel and runs what README runs first."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("builder", "textual", "backend", "frontends", "tools", "testing")
PLUGIN = "tileir_triton"
SHIPPED = {".py", ".tir", ".typed", ".pyi", ".lark", ".examples"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the checkout, so that the checkout stays as it is, with what a build of an earlier
    state left in it."""
    source = tmp_path_factory.mktemp("source")
    for part in ("tileir", *PARTS, PLUGIN, "examples"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, source / part, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in ("tileir", "tileir/tools", PLUGIN):
        stale = source / "build/lib" / package / "deleted.py"
        stale.parent.mkdir(parents=True)
        stale.write_text("raise SystemExit\n")
    return source


def wheel_of(source: Path, built: Path) -> zipfile.ZipFile:
    """The wheel that pip builds of the folder `source`."""
    command = ["wheel", "--no-build-isolation", "--no-deps", "-w", str(built), str(source)]
    subprocess.run([sys.executable, "-m", "pip", "-q", *command], check=True)
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory) -> zipfile.ZipFile:
    return wheel_of(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(checkout, tmp_path_factory) -> Path:
    """The folder of what a wheel says of itself, made without building the wheel."""
    folder = tmp_path_factory.mktemp("metadata")
    make = "import sys, setuptools.build_meta as b; "
    make += "print(b.prepare_metadata_for_build_wheel(sys.argv[1]))"
    command = [sys.executable, "-P", "-c", make, str(folder)]
    done = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True)
    return folder / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def unpacked_sdist(checkout, tmp_path_factory) -> Path:
    """The source distribution, unpacked."""
    built = tmp_path_factory.mktemp("sdist")
    build = "import sys, setuptools.build_meta as b; b.build_sdist(sys.argv[1])"
    command = [sys.executable, "-P", "-c", build, str(built)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(built, filter="data")
    return built / path.name.removesuffix(".tar.gz")


@pytest.mark.slow
def test_the_source_distribution_makes_the_same_wheel(unpacked_sdist, wheel, tmp_path):
    def files(archive: zipfile.ZipFile) -> set[str]:
        return {name for name in archive.namelist() if ".dist-info/" not in name}

    assert files(wheel_of(unpacked_sdist, tmp_path)) == files(wheel)


@pytest.mark.slow
def test_the_source_distribution_runs_what_readme_runs_first(unpacked_sdist, tmp_path):
    """All but the installation: `python -m tileir` finds the folder that it is started in."""
    first = (ROOT / "README.md").read_text().split("```sh\n")[1].splitlines()[0]
    words = first.split("/tileir ")[1].split()
    assert words[0] == "run"
    done = subprocess.run(
        [sys.executable, "-m", "tileir", *words],
        cwd=unpacked_sdist,
        env={**os.environ, "PYTHONSAFEPATH": "", "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert " ok\n" in done.stdout


@pytest.mark.slow
def test_every_file_of_the_folders_is_in_the_wheel(wheel):
    expected = {
        ("tileir/" if part in PARTS else "") + path.relative_to(ROOT).as_posix()
        for part in ("tileir", *PARTS, PLUGIN)
        for path in (ROOT / part).rglob("*")
        if path.suffix in SHIPPED
    }
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == expected


def test_every_package_folder_says_that_it_is_one():
    for part in ("tileir", *PARTS, PLUGIN):
        for path in (ROOT / part).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path.parent


def test_commands_and_extras_are_declared(metadata):
    declared = (metadata / "entry_points.txt").read_text()
    assert "tileir-opt = tileir.tools.opt:main" in declared
    assert "[triton.backends]\ncpu = tileir_triton.cpu\ntileir = tileir_triton\n" in declared
    text = (metadata / "METADATA").read_text()
    for extra in ("cu12", "cu13", "frontends", "triton", "test", "bench"):
        assert f"Provides-Extra: {extra}" in text
    assert "License-Expression: MIT" in text


@pytest.mark.slow
def test_the_wheel_has_these_commands_and_extras(wheel, metadata):
    for file in ("entry_points.txt", "METADATA"):
        (name,) = (n for n in wheel.namelist() if n.endswith(f".dist-info/{file}"))
        assert wheel.read(name).decode() == (metadata / file).read_text()


def test_llvm_is_not_needed_by_the_core(metadata):
    needed = [
        line
        for line in (metadata / "METADATA").read_text().splitlines()
        if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]
    assert sorted(line.split()[1].split(">")[0] for line in needed) == [
        "attrs",
        "ml_dtypes",
        "numpy",
    ]
