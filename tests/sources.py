"""The Python files of the library, each parsed once for all tests that read them."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("builder", "textual", "backend", "frontends", "tools", "testing")
"""Folders that are imported as `tileir.PART`."""

PLUGIN = "tileir_triton"
LIBRARY = ("tileir", *PARTS, PLUGIN)
"""Folders of the library."""


@cache
def files(folder: str) -> tuple[Path, ...]:
    """The Python files of a folder of the repository, sorted."""
    return tuple(sorted((ROOT / folder).rglob("*.py")))


@cache
def text(path: Path) -> str:
    """The text of a file."""
    return path.read_text("utf-8")


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection while syntax trees are built: they are large and have no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def _library() -> dict[Path, dict[type[ast.AST], list[ast.AST]]]:
    """The nodes of every file of the library by their type. The garbage collector is told not to
    search them."""
    with collector_paused():
        paths = [path for folder in LIBRARY for path in files(folder)]
        by_path = {path: nodes_by_type(ast.parse(text(path), str(path))) for path in paths}
        gc.freeze()
    return by_path


def tree(path: Path) -> ast.Module:
    """The syntax tree of a file. Trees of the library are kept."""
    if path.relative_to(ROOT).parts[0] in LIBRARY:
        return _library()[path][ast.Module][0]
    with collector_paused():
        return ast.parse(text(path), str(path))


def nodes(path: Path, *types: type[ast.AST]) -> list[ast.AST]:
    """The nodes of a file that have one of `types`, type by type."""
    kept = path.relative_to(ROOT).parts[0] in LIBRARY
    by_type = _library()[path] if kept else nodes_by_type(tree(path))
    return [node for kind in types for node in by_type.get(kind, ())]


def nodes_by_type(root: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    """The nodes of a syntax tree by their type, in the order of `ast.walk`, but faster."""
    by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    reached = [root]
    for node in reached:
        by_type[type(node)].append(node)
        reached += children(node)
    return by_type


_LEAVES = ("ctx", "id", "attr", "arg", "module", "level", "kind", "type_comment")
"""Fields whose values are no nodes, or one that every node shares."""


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of nodes of type `kind` that may have nodes."""
    return () if kind is ast.Constant else tuple(f for f in kind._fields if f not in _LEAVES)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes that a node consists of, but contexts of names (`ast.Load`, `ast.Store`)."""
    values: list[ast.AST] = []
    for name in _fields(type(node)):
        value = getattr(node, name)
        if type(value) is list:
            values += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            values.append(value)
    return values


def statements(
    body: Sequence[ast.AST], leave_out: Callable[[ast.AST], bool] = lambda node: False
) -> Iterator[ast.AST]:
    """Statements, and those within them at any depth, but for those that `leave_out` is true of."""
    for node in body:
        if not leave_out(node):
            yield node
            for name in ("body", "handlers", "orelse", "finalbody", "cases"):
                yield from statements(getattr(node, name, ()), leave_out)
