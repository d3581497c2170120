"""A program: its tunables, constants and functions, and the modules that are built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import product
from typing import Any

import attrs

from tileir import Module
from tileir.builder import Builder, arg
from tileir.executor import executor, on_host
from tileir.frontends.triton_c import ctypes, host, reading, values
from tileir.frontends.triton_c.ctypes import CType, pointer_to, type_named
from tileir.frontends.triton_c.errors import ProgramError, error_at, launch_error
from tileir.frontends.triton_c.expressions import constant_of, type_of
from tileir.frontends.triton_c.frame import Frame
from tileir.frontends.triton_c.statements import run
from tileir.frontends.triton_c.values import Item, TypedValue, describe
from tileir.grids import extents_of
from tileir.measuring import Candidate, Measuring
from tileir.process import collector_paused
from tileir.types import AddressSpace

_DEEPEST = 40
"""Calls within calls that are inlined."""

_MOST_ELEMENTS = 1 << 24
"""Elements of a constant, which the host fills one by one."""

_PROMISES = {
    "restrict": "noalias", "__restrict__": "noalias", "__noalias": "noalias",
    "read_only": "readonly", "__readonly": "readonly", "write_only": "writeonly",
    "__writeonly": "writeonly",
}  # fmt: skip


@attrs.frozen(slots=False, eq=False)
class Program:
    """A parsed Triton-C program."""

    text: reading.Text
    tree: Any

    def _items(self, kind: str) -> list[Any]:
        return [node for node in self.tree.children if node.data == kind]

    @cached_property
    def tunables(self) -> dict[str, tuple[int, ...]]:
        """The values that each `tunable` may have."""
        frame = Frame(Builder(), self.text, {}, {})
        return {
            str(name): tuple(constant_of(frame, n) for n in choices.children)
            for _, name, choices in (node.children for node in self._items("tunable"))
        }

    @cached_property
    def functions(self) -> dict[str, Any]:
        """Definitions by name."""
        return {_name(node): node for node in self._items("function")}

    @cached_property
    def _allocations(self) -> dict[str, tuple[CType, Any]]:
        """Constants: their element types, and the nodes of their sizes."""
        allocations: dict[str, tuple[CType, Any]] = {}
        for node in self._items("declaration"):
            for declarator in _allocations(node):
                words, size = declarator.children[3].children
                kind = type_named(tuple(map(str, words.children)))
                allocations[str(declarator.children[1])] = kind, size
        return allocations

    @property
    def _host_statements(self) -> list[Any]:
        reserved = ("tunable", "function")
        return [
            node
            for node in self.tree.children
            if node.data not in reserved and not _allocations(node)
        ]

    def kernel(self, name: str | None = None) -> ProgramKernel:
        """Return the kernel called `name`, or the only kernel.

        Kernels are the functions marked `kernel`, or without any such mark those that return
        nothing. Raises LaunchError.
        """
        free = [n for n, f in self.functions.items() if _result(self, f) is ctypes.VOID]
        kernels = [n for n in free if _is_marked(self.functions[n])] or free
        if name is None and len(kernels) == 1:
            (name,) = kernels
        if name not in kernels:
            message = (
                f"there is no kernel {name or 'alone'}; there are: {', '.join(kernels) or 'none'}"
            )
            raise launch_error(message, self.text.place(1, 1))
        return ProgramKernel(self, name)

    @collector_paused()
    def module(
        self, name: str | None = None, constants: Mapping[str, Any] | None = None, **tunables: int
    ) -> Module:
        """Return the module with a kernel, for values of its tunables and integers known to the
        host.

        A tunable that is left out has its first value. Raises CompilationError and LaunchError.
        """
        kernel = self.kernel(name)
        chosen = self._tunable_values(tunables)
        names = {**chosen, **(constants or {})}
        b = Builder()
        sizes = {n: self._size(node, names) for n, (_, node) in self._allocations.items()}
        memory = {n: [0] * size for n, size in sizes.items()}
        kinds = {n: kind for n, (kind, _) in self._allocations.items()}
        after = host.execute(self.text, self._host_statements, {**names, **memory}, kinds)
        for constant, (kind, _) in self._allocations.items():
            content = [after[constant][i] for i in range(sizes[constant])]
            b.global_(constant, kind.element, sizes[constant], content, constant=True)
        _compile_kernel(self, b, self.functions[kernel.name], names)
        return b.module()

    def _tunable_values(self, chosen: Mapping[str, int]) -> dict[str, int]:
        unknown = chosen.keys() - self.tunables.keys()
        if unknown:
            raise launch_error(f"there is no tunable {', '.join(sorted(unknown))}")
        return {name: chosen.get(name, choices[0]) for name, choices in self.tunables.items()}

    def _size(self, node: Any, names: Mapping[str, Any]) -> int:
        frame = Frame(Builder(), self.text, {}, names)
        size = constant_of(frame, node)
        with frame.at(node):
            if not 1 <= size <= _MOST_ELEMENTS:
                raise ProgramError(f"constants have 1 to {_MOST_ELEMENTS} elements, not {size}")
        return size


@attrs.frozen(eq=False)
class ProgramKernel:
    """A kernel of a program, launched by `kernel[grid](*arguments, TM=32)`.

    It runs on the executor `on`. By default it runs on the CPU, or in the interpreter if the CPU
    backend does not support it.
    """

    program: Program
    name: str

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launcher for `grid`: numbers, or a function from tunables to numbers."""

        def launch(
            *arguments: Any, on: str | None = None, constants: Any = None, **tunables: int
        ) -> Any:
            module = self.program.module(self.name, constants, **tunables)
            chosen = self.program._tunable_values(tunables)  # pyright: ignore[reportPrivateUsage]
            extents: Any = grid(chosen) if callable(grid) else grid
            where = on or on_host(module, self.name)
            return executor(where).launch(module, self.name, extents, arguments)

        return launch

    def fastest(
        self, grid: Any, *arguments: Any, on: str | None = None, constants: Any = None,
        remember: bool = False,
    ) -> dict[str, int]:  # fmt: skip
        """Measure all combinations of tunables and return the fastest one.

        The launches use copies of the arguments. The executor `on` (default: the CPU) must be able
        to measure (`tileir.measuring`). Raises LaunchError if no combination runs, or if the
        executor cannot measure.
        """
        program = self.program
        points = [
            dict(zip(program.tunables, values, strict=True))
            for values in product(*program.tunables.values())
        ]
        modules = [program.module(self.name, constants, **point) for point in points]
        where = executor(on or on_host(modules[0], self.name))
        if not isinstance(where, Measuring):
            raise launch_error(f"the executor {where.name} does not measure")
        names = [str(p.name) for p in modules[0].functions[self.name].parameters]
        copies = [a.copy() if hasattr(a, "copy") else a for a in arguments]
        candidates = [
            Candidate(module, self.name, _extents(grid(point) if callable(grid) else grid))
            for point, module in zip(points, modules, strict=True)
        ]
        times = where.measure(candidates, dict(zip(names, copies, strict=True)), remember=remember)
        good = {i: t for i, t in enumerate(times) if isinstance(t, float)}
        if not good:
            raise launch_error(f"no combination of tunables of {self.name} runs: {times[0]}")
        return points[min(good, key=lambda i: good[i])]

    def module(self, constants: Mapping[str, Any] | None = None, **tunables: int) -> Module:
        """Return the module with this kernel."""
        return self.program.module(self.name, constants, **tunables)


def _extents(grid: Any) -> tuple[int, ...]:
    try:
        return extents_of(grid)
    except ValueError as error:
        raise launch_error(str(error)) from None


@collector_paused()
def parse(
    source: str, file: str = "<string>", defines: Mapping[str, object] | None = None
) -> Program:
    """Parse a program; `defines` act as `#define` lines at its top. Raises CompilationError."""
    text = reading.preprocess(source, file, defines or {})
    program = Program(text, reading.parse(text))
    _check_names(program)
    return program


def _check_names(program: Program) -> None:
    """Raise CompilationError if two functions, tunables or constants have one name."""
    seen: set[str] = set()
    for node in program.tree.children:
        for name in _defined_names(node):
            if name in seen:
                place = program.text.place(node.meta.line, node.meta.column)
                raise error_at(f"{name} is defined twice", place, "TIR1002")
            seen.add(name)


def _defined_names(node: Any) -> list[str]:
    """The names that the kernels of a program get from an item outside of functions."""
    if node.data == "function":
        return [_name(node)]
    if node.data == "tunable":
        return [str(node.children[1])]
    return [str(declarator.children[1]) for declarator in _allocations(node)]


def _name(node: Any) -> str:
    return str(next(n for n in node.children if n.data == "declared_name").children[0])


def _result(program: Program, node: Any) -> CType:
    words = next(n for n in node.children if n.data == "type_name")
    stars = next(n for n in node.children if n.data == "stars")
    with Frame(Builder(), program.text, {}, {}).at(words):
        return type_of(type_named(tuple(map(str, words.children))), stars)


def _is_marked(node: Any) -> bool:
    words = [n.children[0] for n in node.children if n.data == "specifier"]
    return any(word in ("kernel", "__global__") for word in words)


def _allocations(node: Any) -> list[Any]:
    """The declarators of constants in an item outside of functions."""
    if node.data != "declaration":
        return []
    declarators = [d for d in node.children[0].children if d.data == "declarator"]
    return [
        d for d in declarators if d.children[3] is not None and d.children[3].data == "allocation"
    ]


# Functions ----------------------------------------------------------------------------------


@attrs.frozen
class _Parameter:
    name: str
    kind: CType
    attributes: dict[str, Any]


def _parameters(program: Program, node: Any, names: Mapping[str, Any]) -> list[_Parameter]:
    listed = next(n for n in node.children if n.data == "parameters").children
    frame = Frame(Builder(), program.text, {}, names)
    return [_parameter(frame, item) for item in listed if item is not None]


def _parameter(frame: Frame, node: Any) -> _Parameter:
    *specifiers, words, stars, name = node.children
    with frame.at(node):
        kind = type_of(type_named(tuple(map(str, words.children))), stars)
        if kind is ctypes.VOID:
            raise ProgramError("a parameter cannot have type void")
    promised: dict[str, Any] = {"aligned": 16} if kind.is_pointer else {}
    for specifier in specifiers:
        if specifier.data == "specifier":
            word = str(specifier.children[0])
            if word in _PROMISES:
                promised[_PROMISES[word]] = True
            elif word == "__constant__" and kind.pointee is not None:
                kind = pointer_to(kind.pointee, AddressSpace.CONSTANT)
        else:
            what = "aligned" if specifier.data == "aligned" else "multiple_of"
            promised[what] = constant_of(frame, specifier.children[0])
    return _Parameter(str(name), kind, promised)


def _compile_kernel(program: Program, b: Builder, node: Any, names: Mapping[str, Any]) -> None:
    parameters = _parameters(program, node, names)
    types = {p.name: arg(p.kind.element, **p.attributes) for p in parameters}
    place = program.text.place(node.meta.line, node.meta.column)
    if len(types) != len(parameters):
        raise error_at("two parameters have one name", place, "TIR1002")
    with b.at_location(place), b.kernel(_name(node), **types) as arguments:
        frame = Frame(b, program.text, _callables(program), names)
        with frame.at(node):
            _declare_constants(program, frame)
            frame.scopes.append({})
            for parameter, value in zip(parameters, arguments, strict=True):
                frame.declare(parameter.name, parameter.kind, (), TypedValue(value, parameter.kind))
        run(frame, node.children[-1])


def _declare_constants(program: Program, frame: Frame) -> None:
    for name, (kind, _) in program._allocations.items():  # pyright: ignore[reportPrivateUsage]
        pointer = pointer_to(kind, AddressSpace.CONSTANT)
        address = frame.b.global_address(pointer.element, name)
        frame.declare(name, pointer, (), TypedValue(address, pointer))


def _callables(program: Program) -> dict[str, Callable[..., Any]]:
    def caller(node: Any) -> Callable[[Frame, list[Item]], Item | None]:
        return lambda frame, items: _inline(program, frame, node, items)

    return {name: caller(node) for name, node in program.functions.items()}


def _inline(program: Program, outer: Frame, node: Any, items: list[Item]) -> Item | None:
    """Inline a function at its call."""
    if outer.depth >= _DEEPEST:
        raise ProgramError(f"calls of {_name(node)} are more than {_DEEPEST} deep")
    parameters, result, b = (
        _parameters(program, node, outer.constant_of),
        _result(program, node),
        outer.b,
    )
    if len(items) != len(parameters):
        raise ProgramError(f"{_name(node)} takes {len(parameters)} arguments, not {len(items)}")
    returned = b.block("returned", *([] if result is ctypes.VOID else [result.element]))
    predicate = _enter(outer, result, returned)
    frame = Frame(
        b, program.text, outer.functions, outer.constant_of, result, returned,
        predicate=predicate, outside=predicate, depth=outer.depth + 1,
    )  # fmt: skip
    frame.scopes = [outer.scopes[0], {}]
    for parameter, item in zip(parameters, items, strict=True):
        value = values.convert(b, item, parameter.kind)
        if value.shape:
            raise ProgramError(f"parameter {parameter.name} is not a tile, as {describe(value)} is")
        frame.declare(parameter.name, parameter.kind, (), value)
    if run(frame, node.children[-1]):
        if result is not ctypes.VOID:
            raise ProgramError(f"{_name(node)} can end without a value")
        b.br(returned)
    elif b.current.block is not None:
        b.unreachable()
    b.enter(returned)
    return None if result is ctypes.VOID else TypedValue(returned.parameters[0], result)


def _enter(frame: Frame, result: CType, returned: Any) -> TypedValue | None:
    """The predicate within a function that is called: control goes around it where one number is
    the predicate, and then there is none."""
    b, predicate = frame.b, frame.predicate
    if predicate is None or predicate.shape:
        return predicate
    body = b.block("called")
    around = () if result is ctypes.VOID else (b.undef(result.element),)
    b.cond_br(predicate.expr, body, returned(*around))
    b.enter(body)
    return None
