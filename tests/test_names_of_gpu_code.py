"""What cannot run without a GPU uses names of tileir that exist.

No other test would detect that a rename breaks `tests/gpu`, `benchmarks/` or `examples/`: most
machines do not import them, and they are not type-checked.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.sources import files, nodes_by_type, tree


@pytest.mark.parametrize("folder", ["tests/gpu", "benchmarks", "examples"])
def test_names_of_tileir_exist(folder: str) -> None:
    assert files(folder)
    assert [f"{path.name}: {name}" for path in files(folder) for name in unknown_names(path)] == []


def test_names_that_are_gone_are_seen() -> None:
    source = (
        "from tileir.ir import Module, Mod\nimport tileir.op\nfrom tileir import types, typos\n"
        "types.F33\ntypes.F32\n"
    )
    unknown = ["tileir.ir.Mod", "tileir.typos", "tileir.types.F33"]
    assert list(unknown_in(ast.parse(source))) == unknown


def unknown_names(path: Path) -> Iterator[str]:
    """Names of tileir in a file that do not exist."""
    return unknown_in(tree(path))


def unknown_in(module: ast.Module) -> Iterator[str]:
    """Imported names of tileir that do not exist, and attributes of its modules."""
    nodes = nodes_by_type(module)
    modules: dict[str, ModuleType] = {}
    for node in nodes[ast.ImportFrom]:
        if _is_own(node.module) and not node.level:
            for name in node.names:
                value = _member(str(node.module), name.name)
                if value is None:
                    yield f"{node.module}.{name.name}"
                elif isinstance(value[0], ModuleType):
                    modules[name.asname or name.name] = value[0]
    for node in nodes[ast.Import]:
        for name in node.names:
            if _is_own(name.name) and _module(name.name) is None:
                yield name.name
    assigned = {node.id for node in nodes[ast.Name] if not isinstance(node.ctx, ast.Load)}
    assigned |= {node.arg for node in nodes[ast.arg]}
    never_assigned = modules.keys() - assigned
    for node in nodes[ast.Attribute]:
        if isinstance(node.value, ast.Name) and node.value.id in never_assigned:
            owner = modules[node.value.id].__name__
            if _member(owner, node.attr) is None:
                yield f"{owner}.{node.attr}"


def _is_own(name: str | None) -> bool:
    return name is not None and name.partition(".")[0] == "tileir"


def _member(module: str, name: str) -> tuple[Any] | None:
    """What `name` is in a module, or the module of a package of that name; None for nothing."""
    owner = _module(module)
    if owner is not None and hasattr(owner, name):
        return (getattr(owner, name),)
    inner = _module(f"{module}.{name}")
    return None if inner is None else (inner,)


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and _is_own(error.name):
            return None
        raise
