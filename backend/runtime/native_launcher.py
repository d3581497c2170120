"""Python functions in machine code (`launcher/`) that launch kernels.

launcher = Launcher(slow, launch, encode)    slow(grid, *arguments, **named): where nothing fits
launcher.add(entry)                          lists of arguments that fit, and what they launch
launcher.function(grid, *arguments)
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache
from typing import Any

import attrs

from tileir.backend.nvptx.llvm_codegen import code_generator, llvm_binding
from tileir.backend.options import CodeVariant
from tileir.backend.runtime.launch_program import ProgramCode
from tileir.backend.runtime.launcher import structures
from tileir.backend.runtime.launcher.dispatch import MAX_WORDS, WHOLE
from tileir.backend.runtime.launcher.program import PROGRAM

_MOST = 128
"""The number of entries that a call compares; the slow path handles all others."""

_FASTCALL_KEYWORDS = 0x80 | 0x02
"""METH_FASTCALL | METH_KEYWORDS (Python's C API, "Common Object Structures")."""

NOT_DIVISIBLE, NOT_ONE, INTEGERS_TOO = 1, 2, 4
"""Flags of an argument."""

LEAST, MOST = -(1 << 63), (1 << 63) - 1


class ArgKind(IntEnum):
    """The condition on an argument.

    It is one object; a Python integer; a float passed in 32 or 64 bits; a bool; a torch tensor on a
    GPU; any object of which a function returns an address; the handle of a stream; an object with
    parts; an equal object of the same class; or the float with these bits.
    """

    CONSTANT = 0
    INTEGER = 1
    FLOAT = 2
    DOUBLE = 3
    BOOL = 4
    TENSOR = 5
    READ = 6
    STREAM = 7
    WHOLE = 8
    EQUAL = 9
    BITS = 10


class PartAccess(IntEnum):
    """The access to a part: item `member`, attribute `member`, the result of the method or function
    `member`, or the object itself."""

    ITEM = 0
    ATTRIBUTE = 1
    METHOD = 2
    FUNCTION = 3
    ITSELF = 4


@attrs.frozen(eq=False)
class Part:
    """A part of an argument, and the condition on it."""

    access: PartAccess
    member: Any
    arg: Arg


@attrs.frozen(eq=False)
class Arg:
    """One argument of a call: its description, and the offset of its value (`offset`, -1 for none).

    The value, or the address, is in `low` to `high` and a multiple of `divisor` (by `flags`, not
    one). `object`: the constant, or a tensor's function for its address. `low`: of an object with
    parts the number of items, if not negative; of a float its bits. `reader`: the function of
    a READ; for a tensor that of its device, where there are several. `dtype`: of a tensor, if it
    matters. `name`: of the parameter, for grids that are functions.
    """

    kind: ArgKind
    offset: int = -1
    divisor: int = 1
    flags: int = 0
    low: int = LEAST
    high: int = MOST
    type: Any = None
    object: Any = None
    reader: Any = None
    name: str | None = None
    dtype: Any = None
    device: int = 0
    parts: tuple[Part, ...] = ()


@attrs.frozen(eq=False)
class Entry:
    """A matching argument list and its launch: `positional` of `args` come without a keyword, the
    others by `names`. `template`: the values of all offsets that the arguments do not set.
    `stream_of` returns the handle of the stream for `whose`; without it `stream` is the handle.
    `meta` are further arguments for a function that computes the grid, `result` is the result of
    the call."""

    positional: int
    names: tuple[str, ...]
    args: Sequence[Arg]
    template: Sequence[int]
    function: int
    threads: int
    shared: int = 0
    stream_of: Callable[[Any], int] | None = None
    whose: Any = None
    stream: int = 0
    meta: dict[str, Any] = attrs.field(factory=dict)
    result: Any = None
    program: ProgramCode | None = None
    """The program that decides whether the launch fits the numbers, and encodes tensor maps. The
    template includes the words that it adds."""


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


class NativeLauncher:
    """Recorded argument lists of one function, newest first.

    `launch` and `encode` are the addresses of `cuLaunchKernel` and `cuTensorMapEncodeTiled`, or of
    functions of their types. Entries live as long as the launcher, so that concurrent calls stay
    valid.
    """

    def __init__(self, slow: Callable[..., Any], launch: int, encode: int = 0) -> None:
        self._references: list[Any] = [slow]
        self._entries: list[structures.EntryStruct] = []
        self._state = structures.StateStruct(None, id(slow), launch, encode)
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, *[ctypes.py_object] * 2]
        self.function: Callable[..., Any] = new(_method(), ctypes.addressof(self._state), self)

    def add(self, entry: Entry) -> Any:
        """Add `entry` before all others. Returns the argument for `first`; None if the entry has
        too many values."""
        if len(entry.template) > MAX_WORDS:
            return None
        entry_struct, references = _entry(entry)
        self._references += [entry, *references, entry_struct]
        self.first(entry_struct)
        return entry_struct

    def first(self, entry: Any) -> None:
        """Move `entry`, which `add` returned, before all others."""
        older = [each for each in self._entries if each is not entry]
        self._entries = [entry, *older[: _MOST - 1]]
        following = [*map(ctypes.addressof, self._entries[1:]), None]
        for each, after in zip(self._entries, following, strict=True):
            each.next = after
        self._state.first = ctypes.addressof(entry)


def _entry(entry: Entry) -> tuple[structures.EntryStruct, list[Any]]:
    """The structure, and the objects that it points to."""
    names = tuple(map(sys.intern, entry.names))
    references: list[Any] = []
    args = (structures.ArgStruct * max(1, len(entry.args)))(
        *(_arg(arg, references) for arg in entry.args)
    )
    template = (ctypes.c_uint64 * max(1, len(entry.template)))(*entry.template)
    getter, program = entry.stream_of, entry.program
    struct = structures.EntryStruct(
        None, id(names) if names else None, entry.positional, len(entry.args),
        ctypes.addressof(args), len(entry.template), ctypes.addressof(template), entry.function,
        None if getter is None else id(getter), id(entry.whose), entry.stream, entry.threads,
        entry.shared, id(entry.meta), id(entry.result),
        *((None, 0, 0, None) if program is None
          else (program.address, program.registers, program.maps, _executing()[0])),
    )  # fmt: skip
    return struct, [names, args, template, *references]


def _arg(arg: Arg, references: list[Any]) -> structures.ArgStruct:
    """The structure; the objects that it points to are added to `references`."""

    def of(value: Any) -> int | None:
        return None if value is None else id(value)

    constant = arg.kind in (ArgKind.CONSTANT, ArgKind.EQUAL)
    parts = (structures.PartStruct * max(1, len(arg.parts)))(
        *(_part(part, references) for part in arg.parts)
    )
    references.append(parts)
    return structures.ArgStruct(
        arg.kind, arg.divisor, arg.flags, arg.offset, arg.low, arg.high, of(arg.type),
        id(arg.object) if constant else of(arg.object), of(arg.reader), of(arg.name),
        of(arg.dtype), arg.device, ctypes.addressof(parts), len(arg.parts),
    )  # fmt: skip


def _part(part: Part, references: list[Any]) -> structures.PartStruct:
    arg = _arg(part.arg, references)
    member = sys.intern(part.member) if isinstance(part.member, str) else part.member
    references += [arg, member]
    number = member if part.access is PartAccess.ITEM else id(member)
    return structures.PartStruct(part.access, number, ctypes.addressof(arg))


@cache
def is_supported() -> bool:
    """Whether this Python has the object layout that the code assumes, CPython's with a global
    interpreter lock, and llvmlite is installed to compile the code."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if importlib.util.find_spec("llvmlite") is None:
        return False
    return ctypes.c_void_p.from_address(id(1) + 8).value == id(int)


_NAMES = ("dtype", "is_cuda")
_OBJECTS: dict[str, Any] = {
    "PyLong_Type": int, "PyFloat_Type": float, "PyBool_Type": bool, "PyTuple_Type": tuple,
    "True": True, **{f'"{name}"': sys.intern(name) for name in _NAMES},
}  # fmt: skip


@cache
def _method() -> int:
    """The address of the method definition of the machine code's functions. Functions read it when
    they are freed, also at the end of the process, so it is never freed."""
    method = _Method(b"launch", _code()[0], _FASTCALL_KEYWORDS, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return ctypes.addressof(method)


@cache
def _code() -> tuple[int, Any]:
    """The address of the Python function, and its owner. Most of its time is in calls of Python, so
    it is compiled without optimisation. Raises `CompileError` (TIR0704) without llvmlite."""
    return _generate(_text(), "dispatch", 0)


@cache
def _executing() -> tuple[int, Any]:
    """The same of the function that executes launch programs, for the first kernel that has one."""
    return _generate(PROGRAM, "execute", 1)


def _generate(text: str, name: str, level: int) -> tuple[int, Any]:
    binding = llvm_binding()
    module = binding.parse_assembly(text)
    module.triple = binding.get_process_triple()
    machine = binding.Target.from_triple(module.triple).create_target_machine(opt=level, jit=True)
    module.data_layout = str(machine.target_data)
    module.verify()
    engine = binding.create_mcjit_compiler(module, machine)
    with code_generator(binding, CodeVariant.SCHEDULED):
        engine.finalize_object()
    return engine.get_function_address(name), engine


def _text() -> str:
    def address(match: re.Match[str]) -> str:
        name = match[1]
        if name in _OBJECTS:
            place: int | None = id(_OBJECTS[name])
        else:
            place = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        return f"inttoptr (i64 {place} to ptr)"

    return re.sub(r'@@([\w"]+)@@', address, WHOLE)
