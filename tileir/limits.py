"""Limits on what a program may ask of the compiler, so that no text hangs or exhausts a process.

    with limits(tile_elements=1 << 24):
        tileir.interpret(module, ...)
    tileir.backend.compile(module, options={"limits": {"operations": 1 << 18}})
    tileir-opt --limit operations=262144 FILE

`docs/reference/limits.md` lists them with the fixed limits of the language
(`tileir.tools.limitdocs`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, NamedTuple, cast

import attrs

from tileir.errors import CompileError, Diagnostic, Location, TileirError
from tileir.field import FieldKind
from tileir.ir import Function, Global, Module
from tileir.op import Op
from tileir.types import Buffer, Descriptor, Tile, Type


@attrs.frozen(repr=False)
class Limits:
    """The limits of a program's demands on the compiler. `ABOUT` describes each limit; 0 is the
    limit of the target, if it has one of the kind."""

    tile_elements: int = 1 << 20
    operations: int = 1 << 16
    loop_depth: int = 64
    evaluations: int = 1 << 18
    source_characters: int = 1 << 20
    register_percent: int = 140
    parameter_bytes: int = 0
    constant_bytes: int = 0
    global_bytes: int = 1 << 30
    initial_elements: int = 1 << 16
    alignment: int = 1 << 12
    seconds: int = 300

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(Limits):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise _mistake(f"limit {field.name} is a whole number from 0 on, not {value!r}")

    @staticmethod
    def of(values: Limits | Mapping[str, int] | None) -> Limits:
        """Limits from a mapping, those that it does not name as they are in force.

        Raises `CompileError` (TIR1602) for a limit that does not exist or a value it cannot have.
        """
        if isinstance(values, Limits):
            return values
        if not isinstance(values, Mapping | None):
            raise _mistake(f"limits are Limits or a mapping of names to numbers, not {values!r}")
        for name in values or ():
            if name not in ABOUT:
                raise _mistake(f"no limit {name}; there are {', '.join(ABOUT)}")
        return attrs.evolve(current(), **(values or {}))


class About(NamedTuple):
    """A limit: the quantity that it bounds, the component that checks it, and other remedies."""

    bounds: str
    checked: str
    remedy: str


ABOUT: Mapping[str, About] = {
    "tile_elements": About(
        "elements of a tile", "the interpreter, passes and backends, before they run",
        "use a smaller tile and a loop",
    ),
    "operations": About(
        "operations of a function after inlining; eight times as many for all functions together",
        "the pass `inline`, before it copies anything, and backends",
        "make called functions `noinline`",
    ),
    "loop_depth": About(
        "nested loops of a function, the loops around its calls included", "backends",
        "write one loop over all combinations of the indices",
    ),
    "evaluations": About(
        "statements, expressions and items of joined tuples of a Triton kernel, counted each time "
        "that they are unrolled or inlined", "the frontend of Triton's Python",
        "use `tl.range` for `tl.static_range`",
    ),
    "source_characters": About(
        "characters of a program in Triton-C, Decoupled Triton, Tile or Tensor Comprehensions",
        "the frontends that parse by a grammar", "split the program",
    ),
    "register_percent": About(
        "registers that the tiles of one operation need, in percent of the registers of a thread",
        "`compile`, before layouts are assigned", "use smaller tiles or more warps",
    ),
    "parameter_bytes": About(
        "bytes of a kernel's parameters; 0 for the target's limit", "`compile` for a GPU",
        "pass some parameters in an array",
    ),
    "constant_bytes": About(
        "bytes of the constant globals that a kernel reads; 0 for the target's limit",
        "`compile` for a GPU", "use a global that is not constant",
    ),
    "global_bytes": About(
        "bytes of the globals that a kernel uses", "backends and the interpreter",
        "pass the memory as an argument",
    ),
    "initial_elements": About(
        "elements of a global with initial values that are not all zero", "backends",
        "fill the global before a launch (`LoadedKernel.fill`)",
    ),
    "alignment": About(
        "bytes of the alignment of a global", "backends",
        "align to less: no access needs more than 128 bytes",
    ),
    "seconds": About(
        "seconds that a process of its own may take to compile (`isolate`); 0 for no limit",
        "`compile(isolate=True)`, `Cache`, the commands and the tuner", "use smaller tiles",
    ),
}  # fmt: skip
"""Every limit by its name."""

_limits: ContextVar[Limits | None] = ContextVar("limits", default=None)
_defaults = [Limits()]


def current() -> Limits:
    """The limits in force here."""
    return _limits.get() or _defaults[0]


def overrides() -> dict[str, int]:
    """The limits in force that are not those of `Limits()`, by name."""
    usual, now = Limits(), current()
    return {n: getattr(now, n) for n in ABOUT if getattr(now, n) != getattr(usual, n)}


@contextmanager
def defaults(**changes: int) -> Generator[None, None, None]:
    """Change the default limits for all threads. Raises the errors of `Limits.of`."""
    before, _defaults[0] = _defaults[0], Limits.of(changes)
    try:
        yield
    finally:
        _defaults[0] = before


@contextmanager
def limits(base: Limits | None = None, **changes: int) -> Generator[Limits, None, None]:
    """Run the body under `base` (None: the limits in force) with `changes`. Raises as
    `Limits.of` does."""
    token = _limits.set(base) if base is not None else None
    try:
        changed = _limits.set(Limits.of(changes))
        try:
            yield current()
        finally:
            _limits.reset(changed)
    finally:
        if token is not None:
            _limits.reset(token)


def limit_diagnostic(
    name: str, what: str, location: Location | None, limit: int | None = None
) -> Diagnostic:
    """The diagnostic (TIR1601) for `what`, which exceeds the limit `name`; `limit` is the
    target's, where that decides."""
    value = getattr(current(), name) if limit is None else limit
    message = f"{what}: the limit {name} is {value}; {ABOUT[name].remedy}, or raise the limit"
    return Diagnostic("TIR1601", message, location)


def check_tiles(module: Module, kind: type[TileirError]) -> None:
    """Raises `kind` (TIR1601) at a tile of `module` with more elements than the limit."""
    most = current().tile_elements
    for function in module.functions.values():
        if any(elements(t) > most for t in {t for t, _ in _types(function)}):
            result, where = next((t, x) for t, x in _types(function) if elements(t) > most)
            what = f"{result} has {elements(result)} elements"
            raise kind(limit_diagnostic("tile_elements", what, where or function.location))


def check_operations(module: Module, kind: type[TileirError]) -> None:
    """Raises `kind` (TIR1601) at the operation of `module` with which a function has more than the
    limit, whatever it calls."""
    most = current().operations
    for function in module.functions.values():
        count = sum(len(block.ops) for block in function.blocks.values())
        if count > most:
            where = next(islice(function.ops, most, None)).location
            what = f"@{function.name} has {count:,} operations"
            raise kind(limit_diagnostic("operations", what, where or function.location))


def check_loops(module: Module, kind: type[TileirError]) -> None:
    """Raises `kind` (TIR1601) at a loop of `module` that is nested more deeply than the limit."""
    most = current().loop_depth
    # Every loop has a header of its own.
    large = [f for f in module.functions.values() if len(f.blocks) > most]
    if not large:
        return
    from tileir.analysis.dominance import dominance
    from tileir.analysis.loops import loops

    for function in large:
        tree = dominance(function)
        heads = {
            edge.label
            for label in tree.preorder
            for edge in function.blocks[label].successors
            if tree.dominates(edge.label, label)
        }
        deep = loops(function).by_header if len(heads) > most else {}
        for header, loop in deep.items():
            if loop.depth > most:
                block = function.blocks[header]
                where = block.location or block.terminator.location or function.location
                what = f"{loop.depth} loops are nested here"
                raise kind(limit_diagnostic("loop_depth", what, where))


def _types(function: Function) -> Iterator[tuple[Type, Location | None]]:
    """The types of the values of `function`, with where they are."""
    for parameter in function.parameters:
        yield parameter.type, parameter.location
    for block in function.blocks.values():
        for value in block.parameters:
            yield value.type, block.location
        for op in block.ops:
            for value in (*op.results, *op.inputs):
                yield value.type, op.location


def elements(type: Type) -> int:
    """Elements of a tile, of a descriptor's block, or of the tiles of a buffer; else 1."""
    if isinstance(type, Tile):
        return type.size
    if isinstance(type, Descriptor):
        return type.block.size
    return type.tile.size if isinstance(type, Buffer) else 1


def check_globals(used: Mapping[str, Global], kind: type[TileirError]) -> None:
    """Raises `kind` (TIR1601) at a global of `used` with which they take more bytes than the
    limit."""
    total, most = 0, current().global_bytes
    for result in used.values():
        if result.external:
            continue
        total += size_of(result)
        if total > most:
            what = f"@{result.name}, with the globals before it, takes {total} bytes"
            raise kind(limit_diagnostic("global_bytes", what, result.location))


def used_globals(module: Module) -> Mapping[str, Global]:
    """The globals of `module` that its functions name, in their order."""
    if not module.globals:
        return {}
    used = {name for f in module.functions.values() for op in f.ops for name in _symbols(op)}
    return {name: variable for name, variable in module.globals.items() if name in used}


def _symbols(op: Op) -> Iterator[str]:
    for field in op.fields(FieldKind.SYMBOL):
        yield getattr(op, field.name)


def size_of(variable: Global) -> int:
    """Bytes of a global."""
    return variable.count * cast(Any, variable.element).bytes


def _mistake(message: str) -> CompileError:
    return CompileError(Diagnostic("TIR1602", message))
