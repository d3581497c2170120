"""`str` is the text of the language, `repr` one line, of whatever size the program is."""

import pytest

from tileir.analysis.uses import definitions
from tileir.op import all_ops
from tileir.ops.control import Return
from tileir.textual import parse, print_function, print_module

TEXT = """tir 1.0

define private i32 @f(i32 %a) {
entry:
  ret %a
}

declare i32 @"odd\\u001bname"(i32 %a)

define kernel void @k(f32* %x, i32 %n) {
entry:
  %c, %d = icmp (i1, i1) %n, 3 {predicate = slt}
  @%c %v = load f32 %x
  cond_br %c, next, out
next:
  store %x, %v
  br out
out:
  ret
}
"""


@pytest.fixture(scope="module")
def module():
    return parse(TEXT)


def test_modules_and_functions_are_text(module):
    assert str(module) == print_module(module)
    assert str(parse(str(module))) == str(module)
    for function in module.functions.values():
        assert str(function) == print_function(function)


def test_ops_are_lines_of_text(module):
    shown = [str(op) for op in module.functions["k"].ops]
    assert shown[:3] == [
        "%c, %d = icmp (i1, i1) %n, 3 {predicate = slt}", "@%c %v = load f32 %x",
        "cond_br %c, next, out",
    ]  # fmt: skip
    assert repr(module.functions["k"].entry.ops[1]) == "<op @%c %v = load f32 %x>"


def test_repr_is_one_short_line(module):
    kernel = module.functions["k"]
    things = [module, *module.functions.values(), *kernel.blocks.values(), *kernel.ops]
    things += [*definitions(kernel)]
    for thing in things:
        assert len(repr(thing)) < 320
        assert repr(thing).isprintable()
    assert repr(kernel) == "<kernel @k: 2 parameters, 3 blocks>"
    assert repr(module.functions["f"]) == "<function @f: 1 parameters, 1 blocks>"
    assert repr(module) == "<module: 3 functions, 0 globals>"


def test_long_ops_are_cut():
    values = parse(TEXT).functions["k"].entry.ops[0].results
    op = Return(values * 1000)
    assert len(repr(op)) < 320
    assert len(str(op)) > 4000


def test_every_class_of_op_has_them():
    for kind in all_ops():
        assert kind.__str__ is not object.__str__
        assert kind.__repr__ is not object.__repr__


def test_compiled_kernels_are_a_line():
    from tileir.backend.compile import compile as compiled

    made = compiled(
        parse(TEXT.replace('declare i32 @"odd\\u001bname"(i32 %a)\n', "")), target="sm_90a"
    )
    assert "\n" not in repr(made)
    assert len(repr(made)) < 200
    assert str(made).startswith("k for sm_90a: ")
