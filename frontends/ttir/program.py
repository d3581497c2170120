"""A TTIR text as a module."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from tileir import Location, Module
from tileir.builder import Builder, Expr, arg
from tileir.errors import TileirError
from tileir.frontends.numerals import TOO_LONG, long_number
from tileir.frontends.triton.building import KernelBuilder, KernelOptions
from tileir.frontends.triton.index_nsw import mark_index_nsw
from tileir.frontends.ttir import arithmetic, control, elements, memory, shape_ops
from tileir.frontends.ttir.block_offsets import promise_block_offsets
from tileir.frontends.ttir.block_pointers import NamedValue, assemble, part_types
from tileir.frontends.ttir.errors import CompilationError, error_at
from tileir.frontends.ttir.frame import RegionReader
from tileir.frontends.ttir.nodes import Function, Region
from tileir.frontends.ttir.reading import read_functions
from tileir.frontends.ttir.types import BlockPointerType, value_type
from tileir.process import collector_paused
from tileir.types import Pointer, Scalar, Type

__all__ = ["read"]

_FAMILIES = (arithmetic, control, elements, memory, shape_ops)
"""Modules whose rules are registered by loading them."""


@collector_paused()
def read(
    text: str,
    file: str = "<ttir>",
    *,
    masked_off: str = "zero",
    overlapped: bool = False,
    num_stages: int = 3,
    enable_fp_fusion: bool = True,
    **options: int,
) -> Module:
    """Convert TTIR text to a verified module; its public functions become kernels with the same
    names.

    - `options` are attributes of the kernels that TTIR does not state, such as `num_warps`.
    - `enable_fp_fusion` allows the contraction of a multiplication and an addition to an fma.
    - `masked_off` is the value of masked-off lanes of loads without `other`: `zero`, as Triton's
      compiler implements it, or `undefined`, as its language defines it.
    - `overlapped` states that the kernel may begin before the previous one has ended
      (`launch_pdl`).
    - `num_stages` is the option of the launch; Triton's default is 3. With more than one, loops
      promise `independent_loads`, as Triton's software pipeliner assumes.

    Raises CompilationError at the line and column of `file`.
    """
    number = long_number(text)
    if number is not None:
        raise error_at(TOO_LONG, Location(file, *number))
    try:
        own = KernelOptions(enable_fp_fusion=enable_fp_fusion)
        settings: dict[str, Any] = {
            "masked_off": masked_off, "overlapped": overlapped, "num_stages": num_stages,
        }  # fmt: skip
        return _module(text, file, own, options, settings)
    except RecursionError:
        raise error_at("the text is nested too deeply", Location(file, 1, 1)) from None


def _module(
    text: str, file: str, own: KernelOptions, options: dict[str, int], settings: dict[str, Any]
) -> Module:
    functions = read_functions(text, file)
    if not functions:
        raise error_at("the text has no tt.func", Location(file, 1, 1))
    b = KernelBuilder(own)
    by_name: dict[str, Function] = {}
    for function in functions:
        _check_parameters(function)
        if by_name.setdefault(function.name, function) is not function:
            raise error_at(f"@{function.name} is defined twice", function.place)
    for function in _callees_first(functions, by_name):
        _define(b, function, options, settings)
    try:
        return mark_index_nsw(b.module())
    except TileirError as error:
        raise CompilationError(*error.diagnostics) from None


def _check_parameters(function: Function) -> None:
    """Raise CompilationError if two parameters have the same name, or if one is a block pointer."""
    names = set[str]()
    for name, _, _ in function.parameters:
        if name in names:
            raise error_at(f"{name} is defined twice", function.place, "TIR1002")
        names.add(name)
    for kind in (*(kind for _, kind, _ in function.parameters), *function.results):
        if isinstance(kind, BlockPointerType):
            message = f"@{function.name} takes or gives {kind}, which is not supported"
            raise error_at(message, function.place, "TIR1003")


def _callees_first(functions: list[Function], by_name: dict[str, Function]) -> list[Function]:
    """The functions that kernels reach, callees first. Raises CompilationError for recursion."""
    result: dict[str, Function] = {}
    under_way: set[str] = set()

    def visit(function: Function) -> None:
        if function.name in result:
            return
        if function.name in under_way:
            raise error_at(f"@{function.name} calls itself", function.place)
        under_way.add(function.name)
        for name in filter(by_name.__contains__, _callees(function.region)):
            visit(by_name[name])
        result[function.name] = function

    for function in functions:
        if function.public:
            visit(function)
    return list(result.values())


def _callees(region: Region) -> list[str]:
    """Names of the functions that a region calls."""
    result: list[str] = []
    for section in region.sections:
        for s in section.statements:
            if s.name == "tt.call":
                result += s.symbols
            for inner in s.regions:
                result += _callees(inner)
    return result


def _define(
    b: Builder, function: Function, options: dict[str, int], settings: dict[str, Any]
) -> None:
    names = [_plain(name) for name, _, _ in function.parameters]
    parameters = {
        name: _parameter(value_type(kind), promises)
        for name, (_, kind, promises) in zip(names, function.parameters, strict=True)
    }
    results = [value_type(kind) for kind in function.results]
    place = function.source or function.place
    with b.at_location(place):
        if function.public:
            opened = b.kernel(function.name, **parameters)
        else:
            opened = b.function(function.name, results, **parameters)
        try:
            with opened as values:
                if function.public and options:
                    b.configure(**options)  # type: ignore[arg-type]
                _body(b, function, values, settings)
        except CompilationError:
            raise
        except TileirError as error:
            raise error_at(error.diagnostics[0].message, function.place, error.code) from None


def _plain(name: str) -> str:
    return name.removeprefix("%")


def _parameter(kind: Type, promises: dict[str, Any]) -> Any:
    """A parameter of type `kind` with what its attributes promise. That a float is divisible, which
    inductor states of a number whose name is that of a pointer, has no meaning."""
    divisor = promises.get("tt.divisibility", 1)
    if not isinstance(divisor, int) or divisor <= 1:
        return kind
    if isinstance(kind, Pointer):
        return arg(kind, aligned=divisor)
    is_integer = isinstance(kind, Scalar) and kind.is_integer
    return arg(kind, multiple_of=divisor) if is_integer else kind


def _body(
    b: Builder, function: Function, values: tuple[Expr, ...], settings: dict[str, Any]
) -> None:
    promise_block_offsets(function.region)
    parameters: dict[str, NamedValue] = {
        name: x for (name, _, _), x in zip(function.parameters, values, strict=True)
    }
    first, *later_sections = function.region.sections
    blocks = {
        s.label: b.block(s.label[1:], *part_types([t for _, t in s.parameters]))
        for s in later_sections
    }
    frame = RegionReader(b, ChainMap(parameters), blocks, **settings)
    frame.run(first.statements)
    for section in later_sections:
        block = blocks[section.label]
        b.enter(block)
        arguments = assemble([kind for _, kind in section.parameters], block.parameters)
        names = (name for name, _ in section.parameters)
        frame.values.update(zip(names, arguments, strict=True))
        frame.run(section.statements)
