"""Packages of the wheel: `tileir` and the top-level folders that are imported as its parts."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

PARTS = ("builder", "textual", "backend", "frontends", "tools", "testing")
PLUGIN = "tileir_triton"


def packages(folder: str, name: str) -> list[str]:
    """`name` and the packages below `folder`, which is imported as `name`."""
    return [name, *(f"{name}.{found}" for found in find_packages(folder))]


class CleanBuild(build_py):
    """Copies the packages into an empty folder: what an earlier build left in `build/lib`, which
    setuptools would package again, may have been deleted since."""

    def run(self) -> None:
        if not self.editable_mode:
            for package in ("tileir", PLUGIN):
                shutil.rmtree(Path(self.build_lib, package), ignore_errors=True)
        super().run()


setup(
    cmdclass={"build_py": CleanBuild},
    package_dir={"tileir": "tileir", PLUGIN: PLUGIN, **{f"tileir.{part}": part for part in PARTS}},
    packages=[
        *packages("tileir", "tileir"),
        *packages(PLUGIN, PLUGIN),
        *(package for part in PARTS for package in packages(part, f"tileir.{part}")),
    ],
)
