"""The order of every atomic access of the CPU, in LLVM IR: op by order by type.

A compare-and-swap that fails has an order of its own. It reads, so it acquires where the op
acquires, and LLVM allows no release there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest

from tileir.backend.cpu.compile import compile as compile_for_cpu
from tileir.textual import parse

SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
FAILING = {
    "relaxed": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire",
}  # fmt: skip
INTEGERS = ("smax", "smin", "umax", "umin", "and", "or", "xor", "add", "xchg")
KINDS = {
    "i16": ("xchg",), "i32": (*INTEGERS, "inc", "dec"), "i64": INTEGERS,
    "f16": ("fadd", "fmax", "fmin", "xchg"), "bf16": ("fadd", "fmax", "fmin", "xchg"),
    "f32": ("fadd", "fmax", "fmin", "xchg"), "f64": ("fadd", "fmax", "fmin", "xchg"),
}  # fmt: skip
ACCESS = re.compile(
    r"(?P<op>atomicrmw|cmpxchg|load atomic|store atomic|fence)\b.*?"
    r"(?P<orders>(?:\b(?:monotonic|acquire|release|acq_rel)\b ?)+)"
)


def accesses(element: str) -> Iterator[tuple[str, str]]:
    """Op and order of every access to elements of a type."""
    yield from product((*KINDS[element], "cas"), SEMANTICS)
    yield from product(["load"], ("relaxed", "acquire"))
    yield from product(["store"], ("relaxed", "release"))


def statement(element: str, shape: str, name: str, sem: str) -> str:
    """An access to `%p`."""
    order = f"sem = {sem}"
    kind = f"{element}{shape}"
    match name:
        case "store":
            return f"atomic_store %p, %v {{{order}}}"
        case "load":
            return f"%o = atomic_load {kind} %p {{{order}}}"
        case "cas":
            return f"%o = atomic_cas {kind} %p, %v, %v {{{order}}}"
        case _:
            return f"%o = atomic_rmw {kind} %p, %v {{op = {name}, {order}}}"


def accesses_of(text: str) -> list[tuple[str, ...]]:
    """The accesses of a kernel with their orders."""
    code = compile_for_cpu(parse(text)).llvm
    body = code[code.index("define internal void @f.k(") :]
    return [(m["op"], *m["orders"].split()) for m in ACCESS.finditer(body)]


def llvm_operations(element: str, name: str, sem: str) -> list[tuple[str, ...]]:
    """What the access becomes: an operation that LLVM has not is a loop, whose first load is
    relaxed, and whose exchange is at least as strong as the op."""
    order = ORDERS[sem]
    if name == "cas":
        return [("cmpxchg", order, FAILING[sem])]
    if name in ("load", "store"):
        return [(f"{name} atomic", order)]
    if name in ("fmax", "fmin") or (name == "fadd" and element in ("f16", "bf16")):
        return [("load atomic", "monotonic"), ("cmpxchg", "acq_rel", "monotonic")]
    return [("atomicrmw", order)]


def kernel(parameters: str, *lines: str) -> str:
    """A kernel of these statements."""
    body = "".join(f"  {line}\n" for line in (*lines, "ret"))
    return f"tir 1.0\n\ndefine kernel void @k({parameters}) {{\nentry:\n{body}}}\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["", "<64>"])
@pytest.mark.parametrize("element", KINDS)
def test_every_access_has_its_order(element: str, shape: str) -> None:
    address = [f"%p = getelementptr {element}* %x, i32 0", f"%v = select {element} true, %n, %n"]
    if shape:
        address = [
            f"%i = make_range i32{shape}", f"%xs = splat {element}*{shape} %x",
            f"%p = getelementptr {element}*{shape} %xs, %i", f"%v = splat {element}{shape} %n",
        ]  # fmt: skip
    for name, sem in accesses(element):
        text = kernel(
            f"{element}* %x, {element} %n", *address, statement(element, shape, name, sem)
        )
        tiles = 2 if shape else 1
        assert accesses_of(text) == llvm_operations(element, name, sem) * tiles, (name, sem)


@pytest.mark.parametrize("sem", SEMANTICS[1:])
def test_every_fence_has_its_order(sem: str) -> None:
    assert accesses_of(kernel("i32* %x", f"fence {{sem = {sem}}}")) == [("fence", ORDERS[sem])]
