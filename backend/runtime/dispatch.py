"""Dispatch of calls, grid and arguments, to launches: once in Python, afterwards in machine code.

    dispatcher = Dispatcher(machine, resolve)
    dispatcher.call((blocks,), x, y, n, BLOCK=128)

`resolve`, in Python, determines the launch of a call, and the conditions under which another call
has the same launch are recorded. Machine code then compares, packs and launches.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import attrs

from tileir.backend.launch_arguments import extents_of, launch_error
from tileir.backend.metadata import KernelParameter, Metadata
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.argument_packing import (
    PackedArgument,
    SpecializationPolicy,
    pack_argument,
    with_span,
)
from tileir.backend.runtime.disjoint import Separation
from tileir.backend.runtime.launch_program import LaunchProgram, OverlapCheck, ProgramCode, assemble
from tileir.backend.runtime.launcher.dispatch import MAX_WORDS
from tileir.backend.runtime.native_launcher import Arg, ArgKind, Entry, Part, PartAccess
from tileir.executor import Done, Fixed, Parts

STREAM = "stream"
"""The name of the argument of a call for the handle of a CUDA stream, or an object that has one:
a keyword, or one of the positional names."""

_FIRST = 2
"""The calls before machine code is generated: it takes time, and a program that launches a kernel
once does not need it."""


@attrs.frozen
class RepeatableLaunch:
    """A launch that machine code can repeat: the handle of a kernel on a GPU (0: it cannot be
    repeated), threads of a block, bytes of shared memory that it is given, and the conditions
    under which the same kernel is launched for other numbers."""

    handle: int
    threads: int
    shared: int = 0
    program: LaunchProgram = attrs.field(factory=LaunchProgram)


class LaunchDevice(Protocol):
    """A device on which kernels are launched."""

    @property
    def devices(self) -> int:
        """The number of GPUs."""
        ...

    @property
    def launch_address(self) -> int:
        """Address of `cuLaunchKernel`."""
        ...

    @property
    def encode_address(self) -> int:
        """Address of `cuTensorMapEncodeTiled`; 0 where there is none."""
        ...

    def owner(self, address: int) -> int | None:
        """The number of the GPU that can access `address`; None if it is not GPU memory."""
        ...

    def current(self) -> int:
        """The number of the GPU that this thread works with."""
        ...

    def launch(
        self, kernel: Any, device: int, grid: Sequence[int], stream: int, words: Sequence[int]
    ) -> RepeatableLaunch:
        """Launch a loaded kernel, or the version of it that is right for `words`. Raises
        LaunchError (TIR0711)."""
        ...


@attrs.frozen(eq=False)
class BoundCall:
    """The resolution of a call: a `kernel` to load and its metadata, the values of its parameters
    in order. `exact` and `plain` as in `SpecializationPolicy`; `meta` are all arguments by name,
    for grids that are functions; `result` is the result of the call."""

    kernel: Any
    plan: Metadata
    values: Sequence[Any]
    names: Sequence[str]
    """The names of the parameters in a call, in order of `values`."""
    meta: Mapping[str, Any] = attrs.field(factory=dict)
    exact: bool = False
    plain: frozenset[str] = frozenset()
    result: Any = None
    parts: Mapping[str, Parts] = attrs.field(factory=dict)
    """The arguments whose parts are parameters."""
    reinterpreted: frozenset[str] = frozenset()
    """The parameters for arrays of any element type, as in `SpecializationPolicy`."""
    separation: Separation | None = None
    """The memory that decides between this version and another; None where that is not known."""
    separate: bool = False
    """Whether this is the version for memory that does not overlap."""


Resolve = Callable[[Any, tuple[Any, ...], dict[str, Any]], BoundCall | Done]
"""Returns the launch of a call (grid, arguments, keywords)."""

_MOST = 1024
"""The most entries of a kernel in machine code: they bound the memory if constants differ from call
to call."""


class Dispatcher:
    """Calls of one kernel. `call(grid, *arguments, stream=..., **named)` is the fastest function at
    present; every call may replace it. `positional` are the names of arguments without a
    keyword."""

    def __init__(self, machine: LaunchDevice, resolve: Resolve, positional: Sequence[str]) -> None:
        self.machine, self.resolve, self.positional = machine, resolve, tuple(positional)
        self.call: Callable[..., Any] = self._first
        self._lock = threading.Lock()
        self._launcher: native_launcher.NativeLauncher | None = None
        self._seen: dict[Any, Any] = {}
        self._calls = 0

    def _first(self, *arguments: Any, **keywords: Any) -> Any:
        """A call before there is machine code, or by a caller that has kept the first value of
        `call`."""
        launcher = self._launcher
        return (self._slow if launcher is None else launcher.function)(*arguments, **keywords)

    def _slow(self, grid: Any, *arguments: Any, **keywords: Any) -> Any:
        """A call in Python; its launch is recorded for later calls."""
        kernel_keywords = {name: value for name, value in keywords.items() if name != STREAM}
        resolved = self.resolve(grid, arguments, kernel_keywords)
        if isinstance(resolved, Done):
            return resolved.result
        passed = dict(zip(self.positional, arguments, strict=False)) | keywords
        call = _Call(self.machine, resolved, passed.get(STREAM))
        extents = extents_of(grid(dict(resolved.meta)) if callable(grid) else grid)
        if 0 in extents:
            return resolved.result
        launched = call.launch(extents)
        self._calls += 1
        if launched.handle and self._calls >= _FIRST and native_launcher.is_supported():
            self._remember(call, launched, len(arguments), passed, tuple(keywords))
        return resolved.result

    def _remember(
        self, call: _Call, launched: RepeatableLaunch, positional: int, passed: Mapping[str, Any],
        keywords: tuple[str, ...],
    ) -> None:  # fmt: skip
        args = call.args(passed)
        launched = call.with_overlap_condition(launched)
        program = call.program(launched)
        if args is None or program is None:
            return
        shape = (positional, keywords, launched, tuple(_identity(a) for a in args))
        with self._lock:
            if self._launcher is None:
                self._launcher = native_launcher.NativeLauncher(
                    self._slow, self.machine.launch_address, self.machine.encode_address
                )
            if shape in self._seen:
                self._launcher.first(self._seen[shape])
            elif len(self._seen) < _MOST:
                entry = call.entry(launched, program, 1 + positional, keywords, args)
                method = self._launcher.add(entry)
                self._seen |= {} if method is None else {shape: method}
            self.call = self._launcher.function


class _Call:
    """One call: its arguments as words, its GPU and its stream."""

    def __init__(self, machine: LaunchDevice, bound: BoundCall, stream: Any) -> None:
        self.machine, self.bound = machine, bound
        parameters = bound.plan.parameters
        if len(bound.values) != len(parameters):
            raise launch_error(
                f"the kernel takes {len(parameters)} arguments, not {len(bound.values)}"
            )
        policy = SpecializationPolicy(
            bound.exact, bound.plain, machine.devices, machine.owner, bound.reinterpreted
        )
        self.passed: list[PackedArgument] = []
        for name, parameter, value in zip(bound.names, parameters, bound.values, strict=True):
            renamed = attrs.evolve(parameter, name=name)
            self.passed.append(pack_argument(renamed, value, len(self.words), policy))
        for index in bound.separation.pointers if bound.separation is not None else ():
            packed, value = self.passed[index], bound.values[index]
            like = packed.like and with_span(packed.like, value, self._position(index))
            self.passed[index] = attrs.evolve(packed, like=like)
        self.device = self._device(parameters)
        self.arrays = [p.array for p in self.passed if p.array is not None]
        self.explicit_stream = None if stream is None else handle_of(stream)

    @property
    def words(self) -> list[int]:
        """Every word that the kernel is passed."""
        return [word for each in self.passed for word in each.words]

    def _device(self, parameters: Sequence[KernelParameter]) -> int:
        """The GPU that all arrays are on; the current one where there are none."""
        devices: dict[int, str] = {}
        for parameter, each in zip(parameters, self.passed, strict=True):
            if each.array is not None and each.array.device is not None:
                devices.setdefault(each.array.device, parameter.name)
        if len(devices) > 1:
            text = ", ".join(f"{name} on {device}" for device, name in devices.items())
            raise launch_error(f"arguments are on several GPUs: {text}")
        if devices:
            return next(iter(devices))
        owners = (self.machine.owner(p.array.address) for p in self.passed if p.array is not None)
        return next((o for o in owners if o is not None), self.machine.current())

    def stream(self) -> int:
        """The stream: the requested one, or the current one of the arrays' library."""
        stream = self.explicit_stream
        if stream is not None:
            return stream
        owner = next((a.stream_of for a in self.arrays if a.stream_of), None)
        if owner is not None:
            return owner(self.device)
        return next((a.stream for a in self.arrays if a.stream), 0)

    def launch(self, extents: Sequence[int]) -> RepeatableLaunch:
        """Launch."""
        kernel, device = self.bound.kernel, self.device
        return self.machine.launch(kernel, device, extents, self.stream(), self.words)

    def with_overlap_condition(self, launched: RepeatableLaunch) -> RepeatableLaunch:
        """`launched` with the condition that memory overlaps, or that it does not."""
        separation = self.bound.separation
        if separation is None:
            return launched
        pairs = tuple((self._position(a), self._position(b)) for a, b in separation.pairs)
        ranges = OverlapCheck(pairs, self.bound.separate)
        conditions = (ranges, *launched.program.conditions)
        return attrs.evolve(launched, program=attrs.evolve(launched.program, conditions=conditions))

    def _position(self, parameter: int) -> int:
        """The position at which the memory of a parameter is stored: after the words of the kernel
        and of a grid, as address and size in bytes."""
        return len(self.words) + 3 + 2 * parameter

    def program(self, launched: RepeatableLaunch) -> ProgramCode | None:
        """The launch program in the form that machine code reads; None if machine code cannot
        execute it."""
        if self._position(len(self.passed)) > MAX_WORDS:
            return None
        words = (word for p in self.bound.plan.parameters for word in p.words)
        return assemble(launched.program, tuple(words))

    def args(self, arguments: Mapping[str, Any]) -> list[Arg] | None:
        """The conditions on each argument under which another call is equivalent; None if machine
        code cannot test them."""
        bound = dict(zip(self.bound.names, self.passed, strict=True))
        parts = {n: self.bound.parts[n] for n in arguments if n in self.bound.parts}
        reached = {*arguments, *(name for each in parts.values() for name in each.names())}
        elsewhere = (p for name, p in bound.items() if name not in reached)
        if any(a.stream for a in self.arrays) or any(p.array is not None for p in elsewhere):
            return None
        keys: list[Arg | None] = []
        for name, value in arguments.items():
            if name in parts:
                keys.append(_compound_argument(parts[name], bound, name))
            else:
                keys.append(bound[name].like if name in bound else constant(value, name))
        args = [a for a in keys if a is not None]
        return args if len(args) == len(keys) else None

    def entry(
        self, launched: RepeatableLaunch, program: ProgramCode, positional: int,
        keywords: tuple[str, ...], args: Sequence[Arg],
    ) -> Entry:  # fmt: skip
        """The entry for the machine code: conditions and launch."""
        bound, source = self.bound, next((a for a in self.arrays if a.stream_of), None)
        return Entry(
            positional,
            keywords,
            args,
            [*self.words, *[0] * program.extents],
            launched.handle,
            launched.threads,
            launched.shared,
            None if source is None else source.stream_of,
            self.device,
            meta=dict(bound.meta),
            result=bound.result,
            program=program if launched.program != LaunchProgram() else None,
        )


def _compound_argument(
    parts: Parts, bound: Mapping[str, PackedArgument], name: str | None
) -> Arg | None:
    """The condition on an argument with parts; None if machine code cannot test one of them."""
    collected: list[Part] = []
    for member, item in parts.items:
        match item:
            case Parts():
                arg = _compound_argument(item, bound, None)
            case Fixed(value):
                arg = constant(value, None)
            case _:
                arg = bound[item].like
        if arg is None:
            return None
        access = PartAccess.ITEM if isinstance(member, int) else PartAccess.ATTRIBUTE
        collected.append(Part(access, member, arg))
    length = -1 if parts.length is None else parts.length
    return Arg(ArgKind.WHOLE, low=length, type=parts.kind, name=name, parts=tuple(collected))


def constant(value: Any, name: str | None) -> Arg | None:
    """The condition on a compile-time argument: an equal number or string, equal items, otherwise
    the same object; None if machine code cannot compare it."""
    if name == STREAM:
        return Arg(ArgKind.STREAM)
    kind = type(value)
    if isinstance(value, (tuple, list)):
        items = [constant(item, None) for item in cast("Sequence[Any]", value)]
        parts = [Part(PartAccess.ITEM, i, arg) for i, arg in enumerate(items) if arg is not None]
        if len(parts) < len(items):
            return None
        return Arg(ArgKind.WHOLE, low=len(items), type=kind, name=name, parts=tuple(parts))
    if kind is int and native_launcher.LEAST <= value <= native_launcher.MOST:
        return Arg(ArgKind.INTEGER, low=value, high=value, name=name)
    if kind is float:
        return Arg(ArgKind.BITS, low=struct.unpack("<q", struct.pack("<d", value))[0], name=name)
    if kind is str:
        return Arg(ArgKind.EQUAL, type=str, object=value, name=name)
    try:
        hash(value)
    except TypeError:  # what can change is looked at every time
        return None
    return Arg(ArgKind.CONSTANT, object=value, name=name)


def _identity(arg: Arg) -> tuple[Any, ...]:
    equal = arg.object if arg.kind is ArgKind.EQUAL else id(arg.object)
    return (
        arg.kind, arg.offset, arg.divisor, arg.flags, arg.low, arg.high, arg.device, equal,
        id(arg.type), id(arg.dtype), *((p.access, p.member, _identity(p.arg)) for p in arg.parts),
    )  # fmt: skip


def handle_of(stream: Any) -> int:
    """The handle of a stream: a number, or torch's or CuPy's object. Raises LaunchError."""
    for name in ("cuda_stream", "ptr", "handle"):
        stream = getattr(stream, name, stream)
    value = getattr(stream, "value", stream)
    if not isinstance(value, int):
        raise launch_error(f"a stream is its handle, or an object that has one, not {stream!r}")
    return value
