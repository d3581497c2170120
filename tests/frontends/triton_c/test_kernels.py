"""Which functions of a Triton-C program are kernels, what their parameters promise, how functions
are inlined, and which of the tunables is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import LaunchError, TileirError
from tileir.frontends.triton_c import parse, program
from tileir.types import AddressSpace

KERNELS: dict[str, tuple[str, ...]] = {
    "void a(int* x) { *x = 1; }": ("a",),
    "void a(int* x) { *x = 1; } void b(int* x) { *x = 2; }": ("a", "b"),
    "void a(int* x) { *x = 1; } kernel void b(int* x) { *x = 2; }": ("b",),
    "__global__ void a(int* x) { *x = 1; } void b(int* x) { *x = 2; }": ("a",),
    "__global__ void a(int* x) { *x = 1; } kernel void b(int* x) { *x = 2; }": ("a", "b"),
    "int a(int x) { return x; } void b(int* x) { *x = a(2); }": ("b",),
    "kernel int a(int x) { return x; } void b(int* x) { *x = 2; }": ("b",),
    "int* a(int* x) { return x; } void b(int* x) { *a(x) = 2; }": ("b",),
    "int a(int x) { return x; }": (),
    "const tunable int N = {2};": (),
}  # fmt: skip
"""Programs, and the functions that can be launched: those marked, or else those that return
nothing."""


@for_each("text", KERNELS)
def test_kernels_are_marked_or_return_nothing(text: str) -> None:
    kernels = KERNELS[text]
    parsed = parse(text, "f.c")
    for name in ("a", "b", "c"):
        if name in kernels:
            assert list(parsed.module(name).functions) == [name]
            out = np.zeros(1, np.int32)
            parsed.kernel(name)[(1,)](out, on="interpreter")
            assert out[0] == (1 if name == "a" else 2)
            continue
        with pytest.raises(LaunchError, match=f"there is no kernel {name};") as caught:
            parsed.kernel(name)
        assert str(caught.value).endswith(f"there are: {', '.join(kernels) or 'none'}")
    if len(kernels) == 1:
        assert parsed.kernel().name == kernels[0]
        return
    with pytest.raises(LaunchError, match="there is no kernel alone"):
        parsed.kernel()


PROMISES: dict[str, dict[str, Any]] = {
    "int* p": {}, "restrict int* p": {"noalias": True}, "__restrict__ int* p": {"noalias": True},
    "__noalias int* p": {"noalias": True}, "read_only int* p": {"readonly": True},
    "__readonly int* p": {"readonly": True}, "write_only int* p": {"writeonly": True},
    "__writeonly int* p": {"writeonly": True}, "align(4) int* p": {"aligned": 4},
    "align(N * 16) int* p": {"aligned": 64}, "const int* p": {},
    "restrict read_only align(8) int* p":
        {"noalias": True, "readonly": True, "aligned": 8},
}  # fmt: skip
"""Parameters, and what they promise besides that a pointer is aligned to 16 bytes."""


@for_each("parameter", PROMISES)
def test_parameters_promise_what_their_specifiers_say(parameter: str) -> None:
    text = f"const tunable int N = {{4}}; kernel void k({parameter}, int* q, int n) {{ *q = n; }}"
    first, second, n = (p.attributes for p in parse(text).module().kernel("k").parameters)
    expected = {"aligned": 16, "noalias": False, "readonly": False, "writeonly": False}
    for attributes, own in ((first, PROMISES[parameter]), (second, {}), (n, {"aligned": 0})):
        for name, value in {**expected, **own}.items():
            assert bool(value) == bool(getattr(attributes, name)), name
            assert not value or getattr(attributes, name) == value, name
    (n,) = parse("kernel void k(multiple_of(12) int n) {}").module().kernel("k").parameters
    assert n.attributes.multiple_of == 12


@for_each(("word", "space"), [
    ("__constant__", AddressSpace.CONSTANT), ("const", AddressSpace.GLOBAL),
    ("restrict", AddressSpace.GLOBAL),
])  # fmt: skip
def test_pointers_to_constants_are_in_their_memory(word: str, space: AddressSpace) -> None:
    """Those of parameters, and those that are declared in a function."""
    text = f"""__constant__ int* t = alloc_const int[2];
    kernel void k({word} int* p, int n, int* out) {{ *out = *(p + n); }}"""
    pointer, _, out = (p.type for p in parse(text).module().kernel("k").parameters)
    assert (pointer.space, out.space) == (space, AddressSpace.GLOBAL)
    declared = text.replace("*out =", f"{word} int* q = t; *out = *q +")
    if word == "__constant__":
        parse(declared).module()
        return
    with pytest.raises(TileirError):
        parse(declared).module()


def chain(length: int) -> str:
    """A program with so many calls within calls."""
    functions = "".join(f"int f{i + 1}(int a) {{ return f{i}(a) + 1; }}\n" for i in range(length))
    last = f"kernel void k(int* x) {{ *x = f{length}(5); }}"
    return f"int f0(int a) {{ return a; }}\n{functions}{last}"


def test_forty_calls_within_calls_are_inlined() -> None:
    """Those of another expression are not counted again; a function that calls itself has none."""
    out = np.zeros(1, np.int32)
    parse(chain(39)).kernel()[(1,)](out, on="interpreter")
    assert out[0] == 44
    parse(chain(39).replace("= f39(5)", "= f39(5) + f39(1)")).module()
    itself = "int f0(int a) { return f0(a); } kernel void k(int* x) { *x = f0(1); }"
    for text in (chain(40), itself):
        with pytest.raises(TileirError, match="calls of f0 are more than 40 deep") as caught:
            parse(text).module()
        assert caught.value.code == "TIR1003"


CALLS: dict[str, str | None] = {
    "*x = f(1);": None, "*x = f(n > 0);": None, "*x = f(2.75);": None,
    "*x = f();": "f takes 1 arguments, not 0", "*x = f(1, 2);": "f takes 1 arguments, not 2",
    "int i[8] = 0 ... 8; *x = f(i);": r"parameter a is not a tile, as int\[8\] is",
    "*x = f(x);": "int* is not converted to int", "*x = some(n);": "some can end without a value",
    "*x = nothing(n);": "this function returns nothing", "nothing(n);": None,
    "int i[8] = 0 ... 8; *x = tile(i);": r"this function returns int, not int\[8\]",
    "*x = either(n);": None, "*x = endless(n);": None,
}  # fmt: skip
"""Statements that call functions, and the errors that they are."""
FUNCTIONS = """int f(int a) { return a * 3; } int some(int a) { if (a > 100) return 1; }
void nothing(int a) { a = 2; } int tile(int a) { int i[8] = 0 ... 8; return i + a; }
int either(int a) { if (a > 1) return 1; else return 2; } int endless(int a) { while (1) a++; }
"""


@for_each("statement", [s for s in CALLS if "tile(" not in s])
def test_calls_fit_their_functions(statement: str) -> None:
    text = f"{FUNCTIONS}kernel void k(int n, int* x) {{\n{statement} }}"
    message = CALLS[statement]
    if message is None:
        parse(text, "f.c").module()
        return
    with pytest.raises(TileirError, match=message.replace("*", r"\*")) as caught:
        parse(text, "f.c").module()
    assert caught.value.code == "TIR1003" and caught.value.line == 5


def test_arguments_are_copies_of_the_type_of_their_parameters() -> None:
    """What the function assigns to them its caller does not see."""
    out = np.zeros(4, np.int32)
    text = """int f(char a, float b, unsigned int c) {
        a += 1; b *= 2; return a + (int)b + (c > 5); }
    kernel void k(int n, int* x) { *x = f(n, n, n); *(x + 1) = n; *(x + 2) = f(300, 1.75, 5);
        *(x + 3) = f(0, 0, 0 - 1); }"""
    parse(text).kernel()[(1,)](-3, out, on="interpreter")
    assert out.tolist() == [-2 - 6 + 1, -3, 45 + 3, 2]


@for_each(("text", "code"), [
    ("kernel void k(int x, int* x) { }", "TIR1002"),
    ("kernel void k(int a, void x) { }", "TIR1003"),
    ("kernel void k(int* x) { int x = 2; *y = x; }", "TIR1002"),
])  # fmt: skip
def test_parameters_have_names_and_types_of_their_own(text: str, code: str) -> None:
    with pytest.raises(TileirError) as caught:
        parse(text).module()
    assert caught.value.code == code


class Timed:
    """An executor that measures the time that it is given for each value of N."""

    name = "timed"

    def __init__(self, times: dict[int, Any]) -> None:
        self.times, self.calls = times, list[tuple[int, tuple[int, ...], bool]]()

    def measure(self, candidates: Any, arguments: Any, *, remember: bool = False) -> list[Any]:
        sizes = [
            next(op.results[0].type.shape[0] for op in c.module.kernel("k").ops if op.results)
            for c in candidates
        ]
        self.calls += [(n, c.grid, remember) for n, c in zip(sizes, candidates, strict=True)]
        assert list(arguments) == ["x", "n"] and arguments["n"] == 3
        return [self.times[n] for n in sizes]


@for_each(("times", "best"), [
    ({2: 3.0, 4: 1.0, 8: 2.0}, 4), ({2: 1.0, 4: 1.5, 8: 2.0}, 2), ({2: 3.0, 4: 2.0, 8: 1.0}, 8),
    ({2: "no", 4: 2.0, 8: 3.0}, 4), ({2: "no", 4: "neither", 8: 3.0}, 8),
    ({2: "no", 4: "neither", 8: "nor"}, None),
])  # fmt: skip
def test_the_fastest_combination_that_runs_is_chosen(
    times: dict[int, Any], best: int | None
) -> None:
    """Each is measured with its own grid; a reason instead of a time means that it does not run."""
    text = """const tunable int N = {2, 4, 8};
    kernel void k(int* x, int n) { int i[N] = 0 ... N; *(x + i) = n; }"""
    kernel, x = parse(text).kernel(), np.zeros(8, np.int32)
    for remember in (False, True):
        where = Timed(times)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program, "executor", lambda _, where=where: where)
            if best is None:
                with pytest.raises(LaunchError, match="no combination of tunables of k runs: no"):
                    kernel.fastest((1,), x, 3, on="timed", remember=remember)
            else:
                grid = lambda t: (16 // t["N"], 2)  # noqa: E731
                fastest = kernel.fastest(grid, x, 3, on="timed", remember=remember)
                assert fastest == {"N": best}
                assert where.calls == [(n, (16 // n, 2, 1), remember) for n in (2, 4, 8)]
            with pytest.raises(LaunchError) as caught:
                kernel.fastest((1, 1, 1, 1), x, 3, on="timed")
            assert caught.value.code == "TIR1005"


def test_tunables_that_are_left_out_have_their_first_value() -> None:
    """The grid is computed from all of them; constants of the host may be numbers of their own."""
    text = """const tunable int N = {2, 4}; tunable const int M = {3, 5};
    kernel void k(int* x) { *(x + get_program_id(0)) = N * 10 + M + 100 * SOME; }"""
    for chosen, first in (({}, 23), ({"N": 4}, 43), ({"M": 5}, 25), ({"N": 4, "M": 5}, 45)):
        out, seen = np.zeros(4, np.int32), list[dict[str, int]]()
        grid = lambda t, seen=seen: (seen.append(t), t["N"])[1:]  # noqa: E731
        kernel = parse(text).kernel()
        kernel[grid](out, on="interpreter", constants={"SOME": 7}, **chosen)
        assert seen == [{"N": 2, "M": 3, **chosen}]
        assert out.tolist() == [700 + first] * seen[0]["N"] + [0] * (4 - seen[0]["N"])
    with pytest.raises(LaunchError, match="there is no tunable K, L"):
        parse(text).module(N=4, L=1, K=2)
