"""What the tests import is what the extra `test` installs."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

from tests.sources import ROOT, children, files, nodes, text, tree

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

HELPERS = {path.stem for path in files("tests") if not path.stem.startswith("test_")}
"""Modules next to the tests that import them by their own names."""

BENCHMARKS = {path.stem: path for path in files("benchmarks")}
CATCHING = {"ImportError", "ModuleNotFoundError", "Exception"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def distributions_of(extra: str) -> frozenset[str]:
    """The distributions that `pip install .[extra]` names, in normalised spelling."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"] + project["optional-dependencies"][extra]
    return frozenset(re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in needed)


def is_installed(module: str, extra: str) -> bool:
    """Whether `pip install .[extra]` installs the distribution of a top-level module."""
    return PROVIDED_BY.get(module, module).lower() in distributions_of(extra)


def name_of(expression: ast.expr) -> str | None:
    """The last name of dotted names: `import_module` of `importlib.import_module`."""
    return getattr(expression, "attr", None) or getattr(expression, "id", None)


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


def required_modules(node: ast.AST, optional: frozenset[str] = frozenset()) -> Iterator[str]:
    """Top-level modules without which the code of `node` fails."""
    if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":
        return
    for module in modules_of(node):
        name = module.split(".")[0]
        if name not in optional:
            yield name
    if isinstance(node, FUNCTIONS):
        optional = optional | asked_for(node)
    caught = node.body if is_catching(node) else ()
    for child in children(node):
        if not (child in caught and modules_of(child)):
            yield from required_modules(child, optional)


@cache
def missing(path: Path) -> frozenset[str]:
    """Modules that the file requires, and that neither the repository nor the extra `test` has."""
    present = {"tests", "tileir", "tileir_triton", *sys.stdlib_module_names}
    importing = nodes(path, ast.Import, ast.ImportFrom, ast.Call)
    modules = {module.split(".")[0] for node in importing for module in modules_of(node)}
    absent = {name for name in modules - present if not is_installed(name, "test")}
    return frozenset(absent & set(required_modules(tree(path)))) if absent else frozenset()


def benchmarks_used(path: Path) -> set[Path]:
    """Modules of `benchmarks/` that a test asks the fixture for or imports, and those they
    import."""
    calls = nodes(path, ast.Call)
    named = {call.args[0].value for call in calls if name_of(call.func) == "benchmarks"}
    named |= {module for call in calls for module in modules_of(call) if module in BENCHMARKS}
    result, waiting = set(), [BENCHMARKS[name.split(".")[-1]] for name in named]
    while waiting:
        path = waiting.pop()
        if path not in result:
            result.add(path)
            top = {m.split(".")[0] for n in tree(path).body for m in modules_of(n)}
            waiting += [BENCHMARKS[name] for name in top & BENCHMARKS.keys()]
    return result


def at_import(path: Path) -> set[str]:
    """Modules that the file imports when it is imported itself, and that the extra `test` does not
    install."""
    names = {name for node in run_at_import(tree(path)) for name in required_modules(node)}
    absent = names - {"tileir", *sys.stdlib_module_names}
    return {name for name in absent if not is_installed(name, "test")}


def run_at_import(node: ast.Module | ast.ClassDef) -> list[ast.stmt]:
    """Statements that run when the module is imported: bodies of functions and methods do not."""
    ran: list[ast.stmt] = []
    for each in node.body:
        if isinstance(each, ast.ClassDef):
            ran += run_at_import(each)
        elif not isinstance(each, FUNCTIONS):
            ran.append(each)
    return ran


def uses(required_by: Mapping[Path, Set[str]]) -> list[str]:
    """What files import, one line for each module."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, names in sorted(required_by.items())
        for name in sorted(names)
    ]


@pytest.mark.parametrize("part", LIBRARY)
def test_what_the_tests_run_is_installed(part):
    """The tests run any part of the library. What it can do without, it looks for first."""
    assert files(part)
    assert not uses({path: missing(path) - OF_CALLERS.get(part, set()) for path in files(part)})


def test_what_the_tests_import_is_installed():
    paths = [path for path in files("tests") if "gpu" not in path.relative_to(ROOT).parts]
    assert len(paths) > 300
    spared = HELPERS | BENCHMARKS.keys() | OF_CALLERS["tests"]
    assert not uses({path: missing(path) - spared for path in paths})


def test_gpu_tests_are_collected_with_what_is_installed():
    assert not uses({path: at_import(path) - HELPERS - {"tests"} for path in files("tests/gpu")})


def test_benchmarks_that_the_tests_import_are_importable():
    tests = [path for path in files("tests") if "benchmarks(" in text(path)]
    used = {result for path in tests for result in benchmarks_used(path)}
    assert used
    assert not uses({path: at_import(path) - BENCHMARKS.keys() for path in used})


def test_methods_do_not_run_at_import():
    source = "class A:\n    import rich\n    def f(self):\n        import torch\nimport lark"
    result = [name for node in run_at_import(ast.parse(source)) for name in required_modules(node)]
    assert result == ["rich", "lark"]


@pytest.mark.parametrize(
    ("source", "names"),
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
def test_required_modules_are_found(source, names):
    assert list(required_modules(ast.parse(source))) == names
