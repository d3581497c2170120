"""The text of a kernel: its syntax tree, at the places of the user's file."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any, cast

import attrs

from tileir import Location
from tileir.builder import source_name
from tileir.frontends.triton.annotations import annotated_type, is_constexpr
from tileir.frontends.triton.errors import error_at
from tileir.frontends.triton.language.control import constexpr
from tileir.frontends.triton.tensor import Kind


@attrs.frozen(slots=False)
class FunctionSource:
    """A Python function to be compiled, and what its free names mean."""

    function: Callable[..., Any]

    @cached_property
    def file(self) -> str:
        """Name of the file, as locations write it."""
        result = inspect.getsourcefile(self.function) or self.function.__code__.co_filename
        return source_name(result)

    @cached_property
    def _text(self) -> tuple[str, int]:
        try:
            lines, first = inspect.getsourcelines(self.function)
        except OSError:
            place = Location(self.file, self.function.__code__.co_firstlineno, 1)
            raise error_at("the source of the kernel is not to be found", place) from None
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
        function_def = module.body[0]
        if not isinstance(function_def, ast.FunctionDef):
            raise error_at("a kernel is a function written with def", self.place(function_def))
        return function_def

    def place(self, node: ast.AST) -> Location:
        """The location of `node`."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        return Location(self.file, line, column + self._indent + 1)

    @cached_property
    def parameters(self) -> tuple[ast.arg, ...]:
        """Parameters in order, those by name alone included."""
        arguments = self.tree.args
        return (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature, for binding arguments."""
        return inspect.signature(self.function)

    @cached_property
    def constant_parameters(self) -> frozenset[str]:
        """Names of parameters annotated `tl.constexpr`."""
        stated = {n for n, p in self.signature.parameters.items() if is_constexpr(p.annotation)}
        return frozenset(stated | {a.arg for a in self.parameters if _says_constexpr(a.annotation)})

    @cached_property
    def annotated_types(self) -> Mapping[str, Kind]:
        """Types that annotations give to parameters, by name."""
        result = (
            (name, annotated_type(p.annotation, self.function))
            for name, p in self.signature.parameters.items()
            if name not in self.constant_parameters
        )
        return {name: kind for name, kind in result if kind is not None}

    @cached_property
    def watched_globals(self) -> tuple[tuple[Mapping[str, Any], str], ...]:
        """The globals that are numbers, texts or tuples, of this function and those it calls, by
        where they stand: a program may set them to something else."""
        result: dict[tuple[int, str], tuple[Mapping[str, Any], str]] = {}
        seen: set[FunctionSource] = {self}
        open_: list[FunctionSource] = [self]
        while open_:
            for space, name in open_.pop()._possible_globals():
                value = space.get(name)
                if isinstance(value, ModuleType):  # its `__getattr__` may take long to refuse
                    continue
                source = getattr(value, "source", None)
                if isinstance(source, FunctionSource) and source not in seen:
                    seen.add(source)
                    open_.append(source)
                elif _is_data(value):
                    result[id(space), name] = space, name
        return tuple(result.values())

    def _possible_globals(self) -> Iterator[tuple[Mapping[str, Any], str]]:
        """Names in this function that may be globals, its own and of modules."""
        own: dict[str, Any] = self.function.__globals__
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                yield own, node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = own.get(node.value.id)
                if isinstance(module, ModuleType):
                    yield vars(module), node.attr

    def outside(self) -> tuple[Any, ...]:
        """The current values of those globals."""
        values = (space.get(name) for space, name in self.watched_globals)
        return tuple((type(value), value) for value in values)

    def free(self, name: str) -> Any:
        """The value of `name` outside the function. Raises KeyError."""
        function = self.function
        captured = function.__code__.co_freevars
        if name not in captured:
            return function.__globals__[name]
        try:
            return (function.__closure__ or ())[captured.index(name)].cell_contents
        except ValueError:  # it has no value yet
            raise KeyError(name) from None


def _is_data(value: Any) -> bool:
    """Whether `value` is a number, a text, or a tuple or constexpr of such."""
    if isinstance(value, tuple):
        return all(map(_is_data, cast(tuple[Any, ...], value)))
    inner = value.value if isinstance(value, constexpr) else value
    return isinstance(inner, (int, float, str))


def _says_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and "constexpr" in ast.unparse(annotation)
