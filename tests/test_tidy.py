"""The repository keeps the rules it states: layers, sizes, documentation, error codes."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.sources import PARTS, PLUGIN, ROOT, files, nodes, text, tree
from tileir.error_codes import CODES
from tileir.op import Op, all_ops

ADAPTER = "frontends/triton_backend"
"""Of the frontends' folder by its name, above the backend by what it does: another compiler's
kernels come in as its language and leave as machine code for its launcher, which is why an executor
is not enough. No frontend imports it."""

LIBRARY = ("tileir", *PARTS, ADAPTER, PLUGIN)
"""The plugin is what another compiler loads when it is imported, so it stands outside of `tileir`
and imports none of it before a kernel is compiled (tests/frontends/triton_backend)."""

MAY_IMPORT = {
    "tileir": {"tileir"},
    "textual": {"tileir", "textual"},
    "builder": {"tileir", "builder"},
    "backend": {"tileir", "textual", "backend"},
    "frontends": {"tileir", "builder", "frontends"},
    ADAPTER: {"tileir", "textual", "builder", "backend", "frontends", ADAPTER},
    PLUGIN: {ADAPTER},
    "testing": {"tileir", "textual", "builder", "backend", "testing"},
    "tools": {*LIBRARY},
}
"""Which parts a part may import from."""

OUTSIDE = {
    "tileir": {"attrs", "numpy", "ml_dtypes"},
    "textual": {"attrs"},
    "builder": {"attrs", "numpy", "ml_dtypes"},
    "backend": {"attrs", "numpy", "ml_dtypes", "llvmlite", "cuda", "platformdirs"},
    "frontends": {"attrs", "lark", "numpy", "pcpp"},
    ADAPTER: {"attrs", "numpy", "triton", PLUGIN},
    PLUGIN: {"attrs", "torch", "triton", PLUGIN},
    "testing": {"attrs", "numpy", "ml_dtypes", "hypothesis", "pytest"},
    "tools": {"attrs", "numpy", "ml_dtypes", "rich", "platformdirs", "distributed", "shtab"},
}
"""Which other distributions a part may import."""

EARLIER = ("types", "values", "signature", "op", "ir", "ops", "analysis", "verify", "passes")
"""Layers of `tileir`: none imports a later one."""


IN_THE_ROOT = {
    ".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "benchmarks",
    "docs", "examples", "pyproject.toml", "setup.py", "tests", "tileir", *PARTS, PLUGIN,
}  # fmt: skip
"""The files and folders that the root of the repository has."""


def sources(part: str) -> list[Path]:
    """The Python files of a part."""
    adapter = ROOT / ADAPTER
    return [p for p in files(part) if part == ADAPTER or not p.is_relative_to(adapter)]


def library() -> list[Path]:
    return [path for part in LIBRARY for path in sources(part)]


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Names of every module a file imports, inside functions and type checking too."""
    names = {alias.name for node in nodes(path, ast.Import) for alias in node.names}
    for node in nodes(path, ast.ImportFrom):
        if node.module and not node.level:
            names.add(node.module)
            if node.module == "tileir":
                names |= {f"tileir.{alias.name}" for alias in node.names}
    return frozenset(names)


def part_of(module: str) -> str | None:
    """The part that `module` belongs to; None for other distributions."""
    words = module.split(".")
    if words[0] != "tileir":
        return None
    if module.startswith("tileir." + ADAPTER.replace("/", ".")):
        return ADAPTER
    return words[1] if len(words) > 1 and words[1] in PARTS else "tileir"


def standard(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names


@pytest.mark.parametrize("part", LIBRARY)
def test_parts_import_what_their_layer_allows(part):
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(part)
        for module in imported_modules(path)
        if (own_part := part_of(module)) is not None
        and own_part not in MAY_IMPORT[part]
        and not (part == "tileir" and path.name == "__init__.py" and path.parent.name == "tileir")
    ]
    assert not wrong


@pytest.mark.parametrize("part", LIBRARY)
def test_parts_use_only_the_distributions_they_may(part):
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(part)
        for module in imported_modules(path)
        if part_of(module) is None
        and not standard(module)
        and module.split(".")[0] not in OUTSIDE[part]
    ]
    assert not wrong


def test_layers_of_the_ir_point_one_way():
    wrong = []
    for path in sources("tileir"):
        layer = path.relative_to(ROOT / "tileir").parts[0].removesuffix(".py")
        if layer not in EARLIER:
            continue
        later = EARLIER[EARLIER.index(layer) + 1 :]
        for module in imported_modules(path):
            words = module.split(".")
            if words[0] == "tileir" and len(words) > 1 and words[1] in later:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_values_are_computed_only_where_numpy_is_needed():
    light = [
        path.relative_to(ROOT).as_posix()
        for path in (*sources("tileir"), *sources("textual"))
        if any(m.split(".")[0] in ("numpy", "ml_dtypes") for m in imported_modules(path))
    ]
    heavy = ("tileir/machine/", "tileir/interp/", "tileir/passes/", "tileir/analysis/")
    assert not [path for path in light if not path.startswith(heavy)]


def test_llvm_and_cuda_stay_in_the_backend():
    wrong = [
        path.relative_to(ROOT).as_posix()
        for path in library()
        if any(m.split(".")[0] in ("llvmlite", "cuda") for m in imported_modules(path))
    ]
    assert all(path.startswith("backend/") for path in wrong)


def test_parts_refuse_to_be_imported_by_their_folder_name():
    for part in PARTS:
        assert f'if __name__ != "tileir.{part}":' in text(ROOT / part / "__init__.py"), part


def test_files_are_at_most_600_lines():
    """Docstrings are no code: a file is cut by what it is about, and not by its length."""
    counts = {str(path.relative_to(ROOT)): code_lines(path) for path in checked_files()}
    long = {path: count for path, count in counts.items() if count > 600}
    assert not long


def checked_files() -> list[Path]:
    return [*library(), *files("tests")]


def code_lines(path: Path) -> int:
    """Lines of a file; of one with more than 600 less those of docstrings."""
    lines = len(text(path).splitlines())
    if lines <= 600:
        return lines
    documented = nodes(path, ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return lines - sum(map(documentation, documented))


def documentation(node) -> int:
    """Lines of the docstring: examples of a pass are no code."""
    if not ast.get_docstring(node):
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


def test_functions_are_at_most_60_lines():
    long = [
        f"{path.relative_to(ROOT)}:{f.name}"
        for path in library()
        for f in nodes(path, ast.FunctionDef, ast.AsyncFunctionDef)
        if f.end_lineno - f.lineno - documentation(f) >= 60
    ]
    assert not long


def test_the_library_prints_nothing():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in library()
        for node in nodes(path, ast.Call)
        if getattr(node.func, "id", None) == "print"
        if path.name != "__main__.py"
    ]
    assert not wrong


def test_every_module_says_what_it_is_for():
    assert not [str(p.relative_to(ROOT)) for p in library() if not ast.get_docstring(tree(p))]


def test_public_functions_and_classes_are_documented():
    definitions = (ast.FunctionDef, ast.ClassDef)
    wrong = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in library()
        for node in tree(path).body
        if isinstance(node, definitions)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any(getattr(d, "id", "") == "overload" for d in node.decorator_list)
    ]
    assert not wrong


def test_every_op_has_a_meaning_or_none_outside_its_context():
    """`gpu.` ops mean something to a block of threads only (docs/explanation/architecture.md)."""
    without = {
        cls.mnemonic
        for cls in all_ops()
        if cls.evaluate is Op.evaluate and not cls.mnemonic.startswith("gpu.")
    }
    assert not without


def test_every_op_is_documented_with_an_example():
    wrong = [cls.mnemonic for cls in all_ops() if "`" not in (cls.__doc__ or "")]
    assert not wrong


def test_codes_in_use_are_the_codes_explained():
    used = set()
    for path in library():
        if path.parent != ROOT / "tileir/error_codes":
            used |= set(re.findall(r"\bTIR\d{4}\b", text(path)))
    assert used - CODES.keys() == set()
    assert CODES.keys() - used == set()


def test_codes_are_explained_in_order_and_in_the_file_of_their_range():
    assert list(CODES) == sorted(CODES)
    for path in (ROOT / "tileir/error_codes").glob("[!_]*.py"):
        codes = re.findall(r"TIR\d{4}", text(path))
        assert {code[:5] for code in codes} == {text(path)[3:8]}, path


def test_nothing_committed_names_a_place_of_one_machine():
    wrong = []
    pattern = re.compile("/wor" + r"k/|/ro" + r"ot/|/ho" + r"me/\w|/tm" + r"p/v\b")
    for name in committed_files():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".tir", ".pyi", ".json", ""} and path.is_file():
            wrong += [name] if pattern.search(path.read_text(errors="replace")) else []
    assert not wrong


def test_nothing_is_left_to_do():
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    assert not [str(p.relative_to(ROOT)) for p in library() if marks.search(text(p))]


def test_decisions_are_numbered_without_gaps():
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(name[:4]) for name in names]
    assert numbers == list(range(1, len(names) + 1))


def test_the_root_has_only_the_files_and_folders_of_the_project():
    """Files that git ignores may be there; others that a command or an experiment leaves may not,
    committed or not."""
    names = {name.partition("/")[0] for name in committed_files("--cached", "--others")}
    assert {name for name in names if (ROOT / name).exists()} == IN_THE_ROOT


def committed_files(*options: str) -> list[str]:
    """The committed files; with `options` of `git ls-files`, those that the options select."""
    command = ["git", "ls-files", "--exclude-standard", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says what is committed")
    return listed.stdout.splitlines()
