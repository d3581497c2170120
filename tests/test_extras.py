"""What the tests import is what the extra `test` installs."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ("tileir", "builder", "textual", "backend", "frontends", "tools", "testing")
PROVIDED_BY = {
    "_pytest": "pytest",
    "cuda": "cuda-bindings",
    "ml_dtypes": "ml-dtypes",
    "nvidia": "nvidia-nvjitlink",
}
"""The distribution of a module, where the two have different names."""

OF_CALLERS = {"frontends": {"torch", "triton"}, "tests": {"torch", "triton"}}
"""What a part imports for callers who have it. The tests put something else in its place, or are
skipped where it is missing."""

HELPERS = {
    path.stem for path in (ROOT / "tests").rglob("*.py") if not path.stem.startswith("test_")
}
"""Modules beside the tests that import them by their own names."""

BENCHMARKS = {path.stem: path for path in (ROOT / "benchmarks").rglob("*.py")}
CATCHING = {"ImportError", "ModuleNotFoundError", "Exception"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def installed(extra: str) -> set[str]:
    """The distributions that `pip install .[extra]` names, in normalised spelling."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"] + project["optional-dependencies"][extra]
    return {re.match(r"[\w.-]+", text)[0].lower().replace("_", "-") for text in needed}


def name_of(called: ast.expr) -> str | None:
    """The name that a call ends in: `import_module` of `importlib.import_module(...)`."""
    return getattr(called, "attr", None) or getattr(called, "id", None)


def modules_of(node: ast.AST) -> list[str]:
    """The modules that `node` itself imports, by statement or by a call with a literal name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module and not node.level else []
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = name_of(node.func)
        if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            return [node.args[0].value]
    return []


def asked_for(function: ast.AST) -> set[str]:
    """The modules that `function` looks for before it imports them."""
    return {
        node.args[0].value.split(".")[0]
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
        if name_of(node.func) in ("find_spec", "importorskip")
    }


def is_catching(node: ast.AST) -> bool:
    """Does `node` handle the error of an import that fails?"""
    return isinstance(node, ast.Try) and any(
        handler.type is None or CATCHING & set(re.findall(r"\w+", ast.unparse(handler.type)))
        for handler in node.handlers
    )


def required(node: ast.AST, optional: frozenset[str] = frozenset()) -> Iterator[str]:
    """Top-level modules without which the code of `node` fails."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    for module in modules_of(node):
        name = module.split(".")[0]
        if name not in optional:
            yield name
    if isinstance(node, FUNCTIONS):
        optional = optional | asked_for(node)
    caught = node.body if is_catching(node) else ()
    for child in ast.iter_child_nodes(node):
        if not (child in caught and modules_of(child)):
            yield from required(child, optional)


@cache
def outside(path: Path) -> frozenset[str]:
    """Modules of other distributions that the file requires."""
    own = {"tests", "tileir", "tileir_triton", *sys.stdlib_module_names}
    return frozenset(set(required(ast.parse(path.read_text()))) - own)


def benchmarks_used(path: Path) -> set[Path]:
    """Modules of `benchmarks/` that a test asks the fixture for, and those they import."""
    named = {
        node.args[0].value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and name_of(node.func) == "benchmarks"
    }
    found, waiting = set(), [BENCHMARKS[name.split(".")[-1]] for name in named]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            top = {m.split(".")[0] for n in ast.parse(path.read_text()).body for m in modules_of(n)}
            waiting += [BENCHMARKS[name] for name in top & BENCHMARKS.keys()]
    return found


def at_import(path: Path) -> set[str]:
    """Modules of other distributions that the file imports when it is imported itself."""
    found = {name for node in run_at_import(ast.parse(path.read_text())) for name in required(node)}
    return found - {"tileir", *sys.stdlib_module_names}


def run_at_import(node: ast.Module | ast.ClassDef) -> list[ast.stmt]:
    """Statements that run when the module is imported: bodies of functions and methods do not."""
    ran: list[ast.stmt] = []
    for each in node.body:
        if isinstance(each, ast.ClassDef):
            ran += run_at_import(each)
        elif not isinstance(each, FUNCTIONS):
            ran.append(each)
    return ran


def wanting(files: Mapping[Path, Set[str]], extra: str) -> list[str]:
    """What `files` import and the extra does not install."""
    present = installed(extra)
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, names in sorted(files.items())
        for name in sorted(names)
        if PROVIDED_BY.get(name, name).lower() not in present
    ]


@pytest.mark.parametrize("part", LIBRARY)
def test_what_the_tests_run_is_installed(part):
    """The tests run any part of the library. What it can do without, it looks for first."""
    spared = OF_CALLERS.get(part, set())
    files = {path: outside(path) - spared for path in (ROOT / part).rglob("*.py")}
    assert files
    assert not wanting(files, "test")


def test_what_the_tests_import_is_installed():
    files = {
        path: outside(path) - HELPERS - OF_CALLERS["tests"]
        for path in (ROOT / "tests").rglob("*.py")
        if "gpu" not in path.relative_to(ROOT).parts
    }
    assert len(files) > 300
    assert not wanting(files, "test")


def test_gpu_tests_are_collected_with_what_is_installed():
    files = {
        path: at_import(path) - HELPERS - {"tests"} for path in (ROOT / "tests/gpu").glob("*.py")
    }
    assert not wanting(files, "test")


def test_benchmarks_that_the_tests_import_are_importable():
    tests = [p for p in (ROOT / "tests").rglob("*.py") if "benchmarks(" in p.read_text()]
    used = {found for path in tests for found in benchmarks_used(path)}
    assert used
    assert not wanting({path: at_import(path) - BENCHMARKS.keys() for path in used}, "test")


def test_methods_do_not_run_at_import():
    text = "class A:\n    import rich\n    def f(self):\n        import torch\nimport lark"
    found = [name for node in run_at_import(ast.parse(text)) for name in required(node)]
    assert found == ["rich", "lark"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import rich.text", ["rich"]),
        ("def f():\n    from rich.text import Text", ["rich"]),
        ("import_module('rich.text')", ["rich"]),
        ("if TYPE_CHECKING:\n    import rich", []),
        ("try:\n    import rich\nexcept ImportError:\n    rich = None", []),
        ("try:\n    import rich\nexcept KeyError:\n    rich = None", ["rich"]),
        ("try:\n    import rich\nfinally:\n    pass", ["rich"]),
        ("try:\n    f()\nexcept ImportError:\n    import rich", ["rich"]),
        ("def f():\n    if find_spec('rich') is None:\n        return\n    import rich", []),
        ("def f():\n    return find_spec('rich')\ndef g():\n    import rich", ["rich"]),
    ],
)
def test_required_modules_are_found(text, names):
    assert list(required(ast.parse(text))) == names
