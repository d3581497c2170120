"""The folders of `backend/` import each other one way only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.sources import ROOT, files, statements, tree

BACKEND = ROOT / "backend"

FLOORS = (
    # What every other part may use: targets, options, host-side data, processes.
    frozenset({"joint_loads", "launch_arguments", "options", "processors", "stage"}),
    frozenset({"array_spans", "machine_code", "target", "worker"}),
    frozenset({"demand", "gpu_models", "legal", "ptxas", "requests", "worker_pool"}),
    frozenset({"assembler", "isolation", "live_registers"}),
    frozenset({"register_limit"}),
    # Analyses and layouts, which know no instruction text.
    frozenset({"layouts", "stage_conditions"}),
    frozenset({"html", "remarks", "shared_memory"}),
    # Lowering rules, then the text of one target.
    frozenset({"codegen"}),
    frozenset({"software_pipeline"}),
    frozenset({"transforms"}),
    frozenset({"halo", "legalize", "strip_mine", "tma"}),
    frozenset({"nvptx", "op_support", "warp_specialize"}),
    frozenset({"assembly", "metadata"}),
    frozenset({"permission", "simt"}),
    # Entry points: the table of passes, compilation, execution, measurement.
    frozenset({"pipeline"}),
    frozenset({"compiled_kernel"}),
    frozenset({"compile"}),
    frozenset({"performance_model", "runtime"}),
    frozenset({"driver", "measurement"}),
    frozenset({"cpu"}),
    frozenset({"pipeline_passes", "tuning"}),
    frozenset({"executors"}),
)
"""The folders and modules of `backend/` from bottom to top: each imports only lower floors."""


def test_backend_folders_import_lower_floors_only():
    wrong = [
        f"{importer} imports {imported}, which is not on a lower floor: {', '.join(paths)}"
        for (importer, imported), paths in edges().items()
        if floor(imported) >= floor(importer)
    ]
    assert not wrong


def test_every_part_of_the_backend_has_one_floor():
    parts = {part_of(path) for path in files("backend")} - {"__init__"}
    named = [part for names in FLOORS for part in names]
    assert sorted(parts) == sorted(named)


def floor(part: str) -> int:
    return next(i for i, names in enumerate(FLOORS) if part in names)


def part_of(path: Path) -> str:
    return path.relative_to(BACKEND).parts[0].removesuffix(".py")


@cache
def edges() -> dict[tuple[str, str], list[str]]:
    """The files by (importing part, imported part)."""
    importing: dict[tuple[str, str], list[str]] = {}
    for path in files("backend"):
        importer = part_of(path)
        if importer == "__init__":
            continue
        for imported in set(imports(tree(path))) - {importer}:
            importing.setdefault((importer, imported), []).append(str(path.relative_to(BACKEND)))
    return importing


def imports(module: ast.Module) -> Iterator[str]:
    """The parts of the backend that a module imports, at its top or in functions, but for those
    that only a type checker sees."""
    for node in statements(module.body, leave_out=_is_for_type_checkers):
        if isinstance(node, ast.ImportFrom) and node.module == "tileir.backend":
            yield from (alias.name for alias in node.names if exists(alias.name))
        elif isinstance(node, ast.ImportFrom):
            yield from _part(node.module or "")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _part(alias.name)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def exists(name: str) -> bool:
    return (BACKEND / name).is_dir() or (BACKEND / f"{name}.py").is_file()


def _part(module: str) -> Iterator[str]:
    words = module.split(".")
    if words[:2] == ["tileir", "backend"] and len(words) > 2:
        yield words[2]
