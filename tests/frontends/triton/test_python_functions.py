"""Compiling a kernel changes nothing outside and ends: which functions of Python it calls, and how
large what it computes may be."""

from __future__ import annotations

import collections
import functools
import math
import operator
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileir
import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.counting import steps_of
from tests.frontends.triton.sources import kernel_of
from tests.sizes import for_each

LIST: list[int] = []
TOUCHED = Path(os.environ.get("TMPDIR", "/tmp")) / f"touched_by_a_kernel_{os.getpid()}"
Pair = collections.namedtuple("Pair", "first second")


def helper() -> int:
    TOUCHED.touch()
    return 1


class Maker:
    def __init__(self) -> None:
        TOUCHED.touch()


@triton.constexpr_function
def successor(n: int) -> int:
    return n + 1


GLOBALS = {
    "os": os, "sys": sys, "math": math, "operator": operator, "functools": functools, "np": np,
    "LIST": LIST, "PATH": str(TOUCHED), "helper": helper, "Maker": Maker, "Pair": Pair,
    "successor": successor, "Path": Path, "tl": tl, "triton": triton,
}  # fmt: skip

REFUSED = [
    "open(PATH, 'w')", "os.system('touch ' + PATH)", "os.mkdir(PATH)", "Path(PATH).touch()",
    "__import__('os').mkdir(PATH)", "eval('helper()')", "exec('helper()')", "helper()", "Maker()",
    "[helper() for i in range(2)]", "[open(PATH, 'w') for i in (1,)]",
    "[LIST.append(i) for i in (1,)]",
    "LIST.append(1)", "().__class__.__base__.__subclasses__()", "helper.__globals__",
    "getattr(os, 'mkdir')(PATH)", "getattr(helper, '__globals__')", "getattr(helper, '__call__')()",
    "functools.partial(helper)()", "functools.reduce(lambda: 1, (1,))", "tuple(map(helper, ()))",
    "sorted((1, 2), key=helper)", "operator.methodcaller('touch')(Path(PATH))", "exit()", "input()",
    "operator.attrgetter('system')(os)", "f'{helper()}'", "sys.exit()", "breakpoint()", "globals()",
    "(helper if True else 1)()", "tl.constexpr(helper)()", "np.save(PATH, 1)",
    "setattr(os, 'x', 1)",
]  # fmt: skip
LARGE = [
    "10**10**10", "1 << 100000000000", "10**1000 * 10**1000", "'a' * 10**10", "(1,) * 10**10",
    "f'{1:1000000000}'", "'{:1000000000}'.format(1)", "'%1000000000d' % 1", "pow(10, 10**10)",
    "[i for i in range(10**9)]", "'a'.ljust(10**9)", "('a' * 60000).replace('a', 'b' * 60000)",
    "math.factorial(10**9)", "(1).to_bytes(10**9, 'big')", "('a' * 60000).join(('b',) * 60000)",
    "bytes(10**10)", "math.comb(10**6, 10**5)", "-(1 << 5000)", "(2**4000)**2",
]  # fmt: skip
UNROLLED = {
    "one loop": "for i in tl.static_range(1000000000):\n        tl.store(x, 1)",
    "an empty loop": "for i in tl.static_range(100000000):\n        pass",
    "without end": "for i in tl.static_range(10**30):\n        pass",
    "two loops": "for i in tl.static_range(9000):\n        for j in tl.static_range(9000):\n"
    "            pass",
    "tuples": "a = (1, 2, 3, 4)\n    for i in tl.static_range(60000):\n        a = a + a",
}


def compile_statement(statement: str) -> tileir.Module:
    return kernel_of(f"def k(x):\n    {statement}\n", "k", GLOBALS).module({"x": "*i32"}, {})


@for_each("expression", REFUSED)
def test_what_does_more_than_compute_is_not_called(expression: str) -> None:
    before = list(LIST)
    with pytest.raises(tileir.TileirError) as caught:
        compile_statement(f"a = {expression}")
    assert caught.value.location is not None
    assert not TOUCHED.exists() and before == LIST


@for_each("expression", LARGE)
def test_what_is_computed_is_bounded(expression: str) -> None:
    with pytest.raises(tileir.TileirError) as caught:
        compile_statement(f"a: tl.constexpr = {expression}")
    assert caught.value.location is not None


@pytest.mark.parametrize("name", UNROLLED)
def test_what_is_unrolled_is_bounded(name: str) -> None:
    with tileir.limits.limits(evaluations=3000), pytest.raises(tileir.TileirError) as caught:
        compile_statement(UNROLLED[name])
    assert caught.value.location is not None
    assert caught.value.code in ("TIR1004", "TIR1601")


def test_calls_that_double_are_bounded() -> None:
    names = dict(GLOBALS)
    names["f0"] = kernel_of("def f0(x):\n    tl.store(x, 1)\n", "f0", names)
    for i in range(1, 31):
        text = f"def f{i}(x):\n    f{i - 1}(x)\n    f{i - 1}(x)\n"
        names[f"f{i}"] = kernel_of(text, f"f{i}", names)
    with tileir.limits.limits(evaluations=3000), pytest.raises(tileir.TileirError) as caught:
        kernel_of("def k(x):\n    f30(x)\n", "k", names).module({"x": "*i32"}, {})
    assert caught.value.code == "TIR1601"


@for_each(
    ("expression", "value"),
    [
        ("math.ceil(math.log2(100))", 7),
        ("successor(4)", 5),
        ("int('12')", 12),
        ("Pair(1, 2).second", 2),
        ("len('abc'.upper())", 3),
        ("max((1, 5, 3))", 5),
        ("sum([i for i in range(4)])", 6),
        ("operator.add(1, 2)", 3),
        ("int(np.log2(8))", 3),
        ("2**20", 1 << 20),
        ("triton.cdiv(7, 2)", 4),
        ("triton.next_power_of_2(5)", 8),
        ("int(f'{7:04}')", 7),
        ("functools.reduce(max, (1, 4))", 4),
    ],
)
def test_what_computes_is_called(expression: str, value: int) -> None:
    from tileir.textual import print_module

    text = print_module(compile_statement(f"a: tl.constexpr = {expression}\n    tl.store(x, a)"))
    assert f"store %x, {value} loc" in text


def test_an_annotation_is_looked_up_and_not_evaluated() -> None:
    text = "def k(x, n: 'helper()', m: 'tl.int64'):\n    tl.store(x, n)\n"
    kernel = kernel_of(text, "k", GLOBALS)
    module = kernel.module({"x": "*i32", "n": "i32"}, {})
    assert [str(p.type) for p in module.kernel().parameters] == ["i32*", "i32", "i64"]
    assert not TOUCHED.exists()


def test_names_of_a_kernel_are_not_searched_for_each_of_them() -> None:
    def steps(count: int) -> int:
        names = {**GLOBALS, **{f"g{i}": i for i in range(count)}}
        body = "".join(f"    tl.store(x, g{i})\n" for i in range(count))
        kernel = kernel_of(f"def k(x):\n{body}", "k", names)
        kernel.module({"x": "*i32"}, {})
        return steps_of(lambda: kernel.module({"x": "*i32"}, {}))

    assert steps(96) <= 4.5 * steps(24)


def test_a_name_that_is_given_its_value_later_is_not_defined() -> None:
    def later() -> Any:
        @triton.jit
        def k(x):
            tl.store(x, number)

        with pytest.raises(tileir.TileirError, match="number is not defined"):
            k.module({"x": "*i32"}, {})
        number = 3
        return k.module({"x": "*i32"}, {})

    assert later().functions


@triton.jit
def python_on_tensors(x, f, out, floats):
    a, b, c = tl.load(x), tl.load(x + 1), tl.load(x + 2)
    tl.store(out, int(tl.load(f)))
    tl.store(out + 1, bool(b).to(tl.int32))
    tl.store(out + 2, min(a, b, c))
    tl.store(out + 3, max((a, b, c)))
    tl.store(out + 4, abs(a))
    for n, value in enumerate((a, b)):
        tl.store(out + 5 + n, value * 10 + n)
    for first, second in zip((a, b), (c, a), strict=True):
        tl.store(out + 7, first - second)
    tl.store(floats, float(a) / 2)
    tl.store(floats + 1, tl.float32(b))


def test_functions_of_python_on_tensors() -> None:
    x, f = np.array([-7, 4, 9], np.int32), np.array([-2.75], np.float32)
    out, floats = np.zeros(8, np.int32), np.zeros(2, np.float32)
    python_on_tensors[(1,)](x, f, out, floats, on="interpreter")
    assert out.tolist() == [-2, 1, -7, 9, 7, -70, 41, 11]
    assert floats.tolist() == [-3.5, 4]
