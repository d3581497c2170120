"""The text of a kernel: its syntax tree, at the places of the user's file."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tileir import Location, records
from tileir.builder import source_name
from tileir.frontends.triton.errors import wrong


@records.frozen(slots=False)
class Source:
    """A Python function to be compiled, and what its free names mean."""

    function: Callable[..., Any]

    @cached_property
    def file(self) -> str:
        """Name of the file, as locations write it."""
        found = inspect.getsourcefile(self.function) or self.function.__code__.co_filename
        return source_name(found)

    @cached_property
    def _text(self) -> tuple[str, int]:
        try:
            lines, first = inspect.getsourcelines(self.function)
        except OSError:
            place = Location(self.file, self.function.__code__.co_firstlineno, 1)
            raise wrong("the source of the kernel is not to be found", place) from None
        return "".join(lines), first

    @cached_property
    def text(self) -> str:
        """The function's own lines."""
        return self._text[0]

    @cached_property
    def _indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The definition, with line numbers of the file."""
        module = ast.parse(textwrap.dedent(self.text))
        ast.increment_lineno(module, self._text[1] - 1)
        found = module.body[0]
        if not isinstance(found, ast.FunctionDef):
            raise wrong("a kernel is a function written with def", self.place(found))
        return found

    def place(self, node: ast.AST) -> Location:
        """Where `node` stands."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        return Location(self.file, line, column + self._indent + 1)

    @cached_property
    def parameters(self) -> tuple[ast.arg, ...]:
        """Parameters in order, those by name alone included."""
        arguments = self.tree.args
        return (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)

    @cached_property
    def signature(self) -> inspect.Signature:
        """For binding arguments."""
        return inspect.signature(self.function)

    @cached_property
    def constant_parameters(self) -> frozenset[str]:
        """Names of parameters annotated `tl.constexpr`."""
        return frozenset(a.arg for a in self.parameters if _is_constexpr(a.annotation))

    def free(self, name: str) -> Any:
        """What `name` means outside the function. Raises KeyError."""
        closure = inspect.getclosurevars(self.function).nonlocals
        if name in closure:
            return closure[name]
        return self.function.__globals__[name]


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and "constexpr" in ast.unparse(annotation)
