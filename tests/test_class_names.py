"""A class name means one class, or the folder says which one.

`ALLOWED` lists the names that several modules define, with the reason. A name that is private to
its module counts too: a reader sees it in tracebacks and in searches.
"""

import ast
from collections import defaultdict
from functools import cache

from tests.sources import LIBRARY, ROOT, files, nodes, nodes_by_type

TREE = "an op of tileir, or the node of a frontend's syntax tree"
TERM = "an op of tileir, or a term of a contraction"
TARGET = "the same part of the thread interface, in numpy and on a CPU"
LANGUAGE = "the same part of several frontends, each for its own language"

ALLOWED = {
    "ArithmeticOps": TARGET,
    "BlockPointer": "`make_block_ptr` in two frontends: Triton's Python and its text",
    "Call": TREE,
    "Cast": TERM,
    "CompilationError": LANGUAGE,
    "Frame": LANGUAGE,
    "Function": "a function of a module, and of a module in Triton's text",
    "MemoryOps": TARGET,
    "Number": "a literal in a term of a contraction, and in a frontend's syntax tree",
    "Operation": "TVM's name for what defines a tensor, MLIR's for an op",
    "PrivateMemoryOps": TARGET,
    "Program": LANGUAGE,
    "ProgramId": TREE,
    "Reduce": TERM,
    "Region": "a region of memory, and MLIR's region of blocks",
    "Reshape": TREE,
    "Schedule": "the schedules of two languages, which both have this name for them",
    "Tensor": "an array of a machine, and the tensors of frontends, which have this name for them",
    "TensorDescriptor": "Triton's descriptors on the host and in a kernel",
    "Token": "the tokens of tileir's text and of Triton's",
    "Var": "a variable of a builder, and TVM's scalar argument",
}


@cache
def definitions() -> dict[str, tuple[str, ...]]:
    """The modules that define a class, by its name."""
    modules: dict[str, set[str]] = defaultdict(set)
    for folder in LIBRARY:
        for path in files(folder):
            for definition in nodes(path, ast.ClassDef):
                modules[definition.name].add(path.relative_to(ROOT).as_posix())
    return {name: tuple(sorted(paths)) for name, paths in modules.items()}


def test_a_class_name_is_defined_once():
    duplicates = {name: paths for name, paths in definitions().items() if len(paths) > 1}
    assert not {name: paths for name, paths in duplicates.items() if name not in ALLOWED}


def test_allowed_names_are_defined_more_than_once():
    assert not [name for name in ALLOWED if len(definitions().get(name, ())) < 2]


def test_classes_within_functions_and_classes_count():
    source = "class A:\n    class B: ...\ndef f():\n    class C: ..."
    classes = nodes_by_type(ast.parse(source))[ast.ClassDef]
    assert {definition.name for definition in classes} == {"A", "B", "C"}
