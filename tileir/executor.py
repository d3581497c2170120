"""Executors: what runs a kernel of a module, found by name.

A frontend or tool that launches does so through an `Executor`, and so depends on no backend.
The interpreter is the executor `interpreter`; others are entry points of the group
`tileir.executors`, each an object (or a callable without arguments giving one) with `launch`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, cast, runtime_checkable

import attrs

from tileir.errors import Diagnostic, LaunchError
from tileir.ir import Module

GROUP = "tileir.executors"
"""The entry point group."""


@runtime_checkable
class Executor(Protocol):
    """Runs kernels of modules."""

    @property
    def name(self) -> str:
        """The name by which `executor` finds it."""
        ...

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> Any:
        """Run `kernel` (None: the only one) once per instance of `grid` and wait for its end.

        Arrays among `arguments` are changed in place. What comes back is the executor's own
        report. Raises TileirError.
        """
        ...


@attrs.frozen
class Fixed:
    """A part whose whole value the module depends on."""

    value: Any


@attrs.frozen
class Parts:
    """An argument that is passed as several parameters: an object of the class `kind`, with
    `length` items unless that is None. `items` maps an index or attribute of the object to the name
    of a parameter, to the parts of that item, or to a value that the module depends on."""

    kind: type
    items: tuple[tuple[int | str, str | Parts | Fixed], ...]
    length: int | None = None

    def names(self) -> Iterator[str]:
        """The names of parameters."""
        for _, item in self.items:
            if isinstance(item, Parts):
                yield from item.names()
            elif isinstance(item, str):
                yield item


def descriptor_parts(
    value: Any, base: str | Parts | Fixed, shape: Sequence[str], strides: Sequence[str],
    constants: Sequence[str],
) -> Parts:  # fmt: skip
    """Functions that compute the parameters of a descriptor like `value` from it: base, extents,
    and strides except the last one, which is 1.

    The module depends on the attributes `constants`.
    """
    rank, steps = len(shape), (*strides, Fixed(1))
    items = (
        ("base", base),
        ("shape", Parts(type(value.shape), tuple(enumerate(shape)), rank)),
        ("strides", Parts(type(value.strides), tuple(enumerate(steps)), rank)),
        *((name, Fixed(getattr(value, name))) for name in constants),
    )
    return Parts(type(value), items)


@attrs.frozen(eq=False)
class KernelCall:
    """The launch of a frontend's kernel.

    It launches `kernel` of `module` with `values`, the arguments by parameter name, in order.
    `meta` are all arguments and options by name, for a grid that is a function of them. `options`
    are those of the executor.

    The module depends only on these properties of the values: their types (the library's type of an
    array and its element), whether 16 divides an address or an integer, and whether an integer is
    1. For parameters in `plain` it depends on the types only. It depends on the whole values of all
    other arguments.
    """

    module: Module
    kernel: str
    values: Mapping[str, Any]
    meta: Mapping[str, Any]
    options: Mapping[str, Any] = attrs.field(factory=dict)
    plain: frozenset[str] = frozenset()
    parts: Mapping[str, Parts] = attrs.field(factory=dict)
    """The arguments that are passed as several parameters, with the functions that compute
    these."""
    reinterpreted: frozenset[str] = frozenset()
    """The parameters that take arrays of any element type: kernels read their bits as another."""


@attrs.frozen(eq=False)
class Done:
    """A call that needed no launch, and its result."""

    result: Any


class Dispatch(Protocol):
    """Calls of one kernel."""

    @property
    def call(self) -> Callable[..., Any]:
        """`call(grid, *arguments, stream=..., **named)`. Read it for every call: a launch may
        replace it by a faster function."""
        ...


@runtime_checkable
class Dispatching(Protocol):
    """An executor that caches how calls of a kernel are launched."""

    def dispatch(
        self,
        resolve: Callable[[Any, tuple[Any, ...], dict[str, Any]], KernelCall | Done],
        positional: Sequence[str],
    ) -> Dispatch:
        """The calls of one kernel. `resolve(grid, arguments, keywords)` determines the launch of a
        call; it is called once for all calls that have the same properties. `positional` names the
        arguments without a keyword. A call returns the compiled kernel and does not wait for its
        end; it raises TileirError."""
        ...

    def wait(self) -> None:
        """Wait for the end of all launches. Raises LaunchError."""
        ...


@attrs.frozen
class Resources:
    """The resources of a compiled kernel: registers and spilled bytes per thread, bytes of shared
    memory and warps per block."""

    registers: int
    spills: int
    shared: int
    num_warps: int


@runtime_checkable
class Describing(Protocol):
    """An executor that reports the resources of compiled kernels."""

    def resources(self, module: Module, kernel: str | None, **options: Any) -> Resources:
        """The resources of `kernel`, compiled with `options`. Raises TileirError."""
        ...


def executors() -> Iterator[str]:
    """Names of the installed executors, the interpreter first."""
    yield "interpreter"
    yield from sorted(_entry_points(*sys.path).keys() - {"interpreter"})


def executor(name: str = "interpreter") -> Executor:
    """The executor called `name`. Raises LaunchError where there is none or it does not load."""
    if name == "interpreter":
        from tileir.interp import Interpreter  # numpy, which launching elsewhere may not need

        return Interpreter()
    entry = _entry_points(*sys.path).get(name)
    if entry is not None:
        return _load(entry)
    names = ", ".join(executors())
    raise LaunchError(Diagnostic("TIR0539", f"no executor {name}; there are: {names}"))


def on_host(module: Module, kernel: str | None = None) -> str:
    """The name of the executor for arrays of the host: `cpu`, native code, where it is installed
    and takes the kernel, else the interpreter. Two calls for one module compile it once."""
    if "cpu" not in executors():
        return "interpreter"
    native: Any = executor("cpu")
    return "cpu" if native.takes(module, kernel) else "interpreter"


@cache
def _entry_points(*path: str) -> Mapping[str, EntryPoint]:
    """The entry points of executors in the folders of `path`, by name; the first one of a name
    counts.

    The result is cached: reading takes milliseconds, and a program may look up an executor at each
    launch.
    """
    entries = entry_points(group=GROUP)
    return {e.name: e for e in reversed(list(entries))}


def _load(entry: EntryPoint) -> Executor:
    try:
        load = entry.load()
    except ImportError as error:
        message = f"executor {entry.name} does not load: {error}"
        raise LaunchError(Diagnostic("TIR0539", message)) from error
    result = load if isinstance(load, Executor) and not isinstance(load, type) else load()
    return cast(Executor, result)
