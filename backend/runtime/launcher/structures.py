"""The structures that Python fills and machine code reads, and access to their fields in LLVM
text."""

from __future__ import annotations

import ctypes
import re
from typing import Any

DIMENSIONS = 5
"""The most that a tensor map has."""


class ArgStruct(ctypes.Structure):
    """An argument (`native_launcher.Arg`). `count` is the number of `parts`."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "divisor", "flags", "offset")),
        ("low", ctypes.c_int64), ("high", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("type", "object", "reader", "name", "dtype")),
        ("device", ctypes.c_int64), ("parts", ctypes.c_void_p), ("count", ctypes.c_int64),
    ]  # fmt: skip


class PartStruct(ctypes.Structure):
    """A part of an argument (`native_launcher.Part`)."""

    _fields_ = [("access", ctypes.c_int64), ("member", ctypes.c_void_p), ("arg", ctypes.c_void_p)]


class EntryStruct(ctypes.Structure):
    """An entry: a list of arguments and its launch (`native_launcher.Entry`). It has `count`
    arguments `args`, the number of `words` that the kernel takes, the launch `program` with its
    `registers` and tensor `maps`, and the function that executes it."""

    _fields_ = [
        ("next", ctypes.c_void_p), ("names", ctypes.c_void_p), ("positional", ctypes.c_int64),
        ("count", ctypes.c_int64), ("args", ctypes.c_void_p), ("words", ctypes.c_int64),
        ("template", ctypes.c_void_p), ("function", ctypes.c_void_p),
        ("getter", ctypes.c_void_p), ("whose", ctypes.c_void_p), ("stream", ctypes.c_int64),
        ("threads", ctypes.c_int32), ("shared", ctypes.c_int32), ("meta", ctypes.c_void_p),
        ("result", ctypes.c_void_p), ("program", ctypes.c_void_p),
        ("registers", ctypes.c_int64), ("maps", ctypes.c_int64), ("execute", ctypes.c_void_p),
    ]  # fmt: skip


class StateStruct(ctypes.Structure):
    """The first entry, the fallback if no entry matches, and the addresses of `cuLaunchKernel` and
    `cuTensorMapEncodeTiled`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("first", "slow", "launch", "encode")]


class InstructionStruct(ctypes.Structure):
    """An instruction of a launch program."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("code", "result", "a", "b")),
        ("immediate", ctypes.c_int64),
    ]  # fmt: skip


class TensorMapStruct(ctypes.Structure):
    """The encoding of a tensor map.

    The fields are: registers with the base, and with the extents and strides, outermost first;
    rank, and bytes of an element; type, swizzle, fill, and the box, innermost first, as
    `cuTensorMapEncodeTiled` takes them; and the table of encoded maps.
    """

    _fields_ = [
        ("base", ctypes.c_int32), ("extents", ctypes.c_int32 * DIMENSIONS),
        ("strides", ctypes.c_int32 * DIMENSIONS),
        *((name, ctypes.c_int32) for name in ("rank", "size", "type", "swizzle", "fill")),
        ("box", ctypes.c_int32 * DIMENSIONS), ("padding", ctypes.c_int32),
        ("table", ctypes.c_void_p),
    ]  # fmt: skip


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "Arg": ArgStruct,
    "Part": PartStruct,
    "Entry": EntryStruct,
    "State": StateStruct,
    "Instruction": InstructionStruct,
    "TensorMap": TensorMapStruct,
}
"""The structures by the names of their types in LLVM text."""
_TYPES: dict[Any, str] = {ctypes.c_int32: "i32", ctypes.c_int64: "i64", ctypes.c_void_p: "ptr"}
_FIELD = re.compile(r"^  %(\S+) = (field|address) %(\w+) (.+), (\w+)$", re.M)


def with_structures(text: str) -> str:
    """LLVM text with the types of the structures that it names before it. There

    %v = field %Entry %e, count          loads field `count` of the structure at %e
    %p = address %TensorMap %map, extents      is the address of a field
    """
    used = [name for name in STRUCTURES if re.search(rf"%{name}\b", text)]
    types = "".join(f"%{name} = type {{ {', '.join(_types(name))} }}\n" for name in used)
    return types + _FIELD.sub(_read_field, text)


def _types(name: str) -> list[str]:
    return [_llvm_type(field[1]) for field in STRUCTURES[name]._fields_]


def _llvm_type(kind: Any) -> str:
    if issubclass(kind, ctypes.Array):
        return f"[{kind._length_} x {_TYPES[kind._type_]}]"
    return _TYPES[kind]


def _read_field(match: re.Match[str]) -> str:
    result, what, name, pointer, field = match.groups()
    index = [each[0] for each in STRUCTURES[name]._fields_].index(field)
    address = f"getelementptr %{name}, ptr {pointer}, i32 0, i32 {index}"
    if what == "address":
        return f"  %{result} = {address}"
    kind = _types(name)[index]
    return f"  %{result}.at = {address}\n  %{result} = load {kind}, ptr %{result}.at"
