"""Packages of the wheel: `tileir` and the top-level folders that are imported as its parts."""

from setuptools import find_packages, setup

PARTS = ("builder", "textual", "backend", "frontends", "tools", "testing")
PLUGIN = "tileir_triton"


def packages(folder: str, name: str) -> list[str]:
    """`name` and the packages below `folder`, which is imported as `name`."""
    return [name, *(f"{name}.{found}" for found in find_packages(folder))]


setup(
    package_dir={"tileir": "tileir", PLUGIN: PLUGIN, **{f"tileir.{part}": part for part in PARTS}},
    packages=[
        *packages("tileir", "tileir"),
        *packages(PLUGIN, PLUGIN),
        *(package for part in PARTS for package in packages(part, f"tileir.{part}")),
    ],
)
