"""The type of a value of LLVM IR, read off the instruction that defines it (LLVM Language
Reference, "Instruction Reference")."""

from __future__ import annotations

import re

_OPENING, _CLOSING = "{<[(", "}>])"
_WORD = re.compile(r"ptr addrspace\(\d+\)|\w+")
_VECTOR = re.compile(r"<(\d+) x (.*)>")
_FLAGS = {
    "nsw", "nuw", "exact", "disjoint", "samesign", "nneg", "fast", "nnan", "ninf", "nsz", "arcp",
    "contract", "afn", "reassoc", "inbounds", "volatile", "atomic",
}  # fmt: skip
_CASTS = {
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "ptrtoint",
    "inttoptr", "bitcast", "addrspacecast",
}  # fmt: skip


def defined_type(instruction: str) -> str:
    """The type of what `instruction`, the text behind the equals sign, defines: for `add i32 %x, 1`
    it is `i32`."""
    opcode, rest = instruction.split(" ", 1)
    while (word := rest.split(" ", 1)[0]) in _FLAGS:
        rest = rest[len(word) + 1 :]
    if opcode in _CASTS:
        return leading_type(rest.rsplit(" to ", 1)[1])
    if opcode in ("icmp", "fcmp"):
        return _like(leading_type(rest.split(" ", 1)[1]), "i1")
    if opcode in ("select", "atomicrmw"):
        return leading_type(operands(rest)[1])
    if opcode == "cmpxchg":
        return f"{{{leading_type(operands(rest)[1])}, i1}}"
    if opcode == "getelementptr":
        kinds = [leading_type(operand) for operand in operands(rest)[1:]]
        return _like(next((k for k in kinds if _VECTOR.match(k)), ""), kinds[0])
    if opcode == "alloca":
        return "ptr"
    return _of_parts(opcode, rest)


def leading_type(text: str) -> str:
    """The type that `text` begins with."""
    if text[0] in _OPENING:
        return text[: _closing(text)]
    found = _WORD.match(text)
    assert found, text
    return found[0]


def _closing(text: str) -> int:
    """Where the bracket that `text` begins with is closed: the place behind."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if not depth:
            return i + 1
    raise AssertionError(text)


def operands(text: str) -> list[str]:
    """What commas outside of brackets part."""
    found, depth, start = list[str](), 0, 0
    for i, letter in enumerate(text):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and not depth:
            found.append(text[start:i].strip())
            start = i + 1
    return [*found, text[start:].strip()]


def _like(shape: str, element: str) -> str:
    """`element` as often as the type `shape` has one."""
    vector = _VECTOR.match(shape)
    return f"<{vector[1]} x {element}>" if vector and not _VECTOR.match(element) else element


def _of_parts(opcode: str, rest: str) -> str:
    """The type of what instructions on vectors and structures define, and of all others, which
    name it first."""
    kind = leading_type(rest)
    if opcode == "extractvalue":
        return operands(kind[1:-1])[int(operands(rest)[1])]
    vector = _VECTOR.match(kind)
    if opcode == "extractelement" and vector:
        return vector[2]
    if opcode == "shufflevector" and vector:
        return _like(leading_type(operands(rest)[2]), vector[2])
    return kind
