"""`str` is the text of the language, `repr` one line, of whatever size the program is."""

from html.parser import HTMLParser

import pytest

from tileir.analysis.uses import definitions
from tileir.errors import CompileError, Diagnostic
from tileir.op import all_ops
from tileir.ops.control import Return
from tileir.textual import parse, print_function, print_module

TEXT = """tir 1.0

constant f32<4> @table = 0.0

define private i32 @f(i32 %a) {
entry:
  ret %a
}

declare i32 @"odd\\u001bname"(i32 %a)

define kernel void @k(f32* aligned(16) readonly %x, i32 multiple_of(4) %n) {
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
    things += [*definitions(kernel), *kernel.parameters, *module.globals.values()]
    for thing in things:
        assert len(repr(thing)) < 320
        assert repr(thing).isprintable()
    assert repr(kernel) == "<kernel @k: 2 parameters, 3 blocks>"
    assert repr(module.functions["f"]) == "<function @f: 1 parameters, 1 blocks>"
    assert repr(module) == "<module: 3 functions, 1 globals>"
    assert repr(module.globals["table"]) == "<constant @table: 4 of f32>"
    assert [*map(repr, kernel.parameters)] == [
        "<parameter f32* aligned(16) readonly %x>",
        "<parameter i32 multiple_of(4) %n>",
    ]


def test_long_ops_are_cut():
    values = parse(TEXT).functions["k"].entry.ops[0].results
    op = Return(values * 1000)
    assert len(repr(op)) < 320
    assert len(str(op)) > 4000


def test_every_class_of_op_has_them():
    for kind in all_ops():
        assert kind.__str__ is not object.__str__
        assert kind.__repr__ is not object.__repr__


@pytest.fixture(scope="module")
def compiled_kernel():
    from tileir.backend.compile import compile as compile_kernel

    text = TEXT.replace('declare i32 @"odd\\u001bname"(i32 %a)\n', "")
    return compile_kernel(parse(text), target="sm_90a")


def test_compiled_kernels_are_a_line(compiled_kernel):
    assert "\n" not in repr(compiled_kernel)
    assert len(repr(compiled_kernel)) < 200
    assert str(compiled_kernel).startswith("k for sm_90a: ")


class Page(HTMLParser):
    """What a page shows, and its elements that are open or were closed out of order."""

    def __init__(self, html):
        super().__init__()
        self.shown, self.open, self.marked = "", [], {}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.open.append((tag, dict(attributes).get("class")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if ("style", None) in self.open:
            return
        self.shown += data
        self.marked.setdefault(self.open[-1][1], []).append(data)


def test_notebooks_show_highlighted_text(module):
    kernel = module.functions["k"]
    for thing in (module, *module.functions.values(), *kernel.ops):
        page = Page(thing._repr_html_())
        assert (page.shown, page.open) == (str(thing), [])
    marked = Page(kernel._repr_html_()).marked
    assert {"%x", "%n", "%c", "%v"} <= set(marked["v"])
    assert marked["f"] == ["@k"]
    assert {"define", "kernel", "cond_br", "br", "ret"} == set(marked["k"])


def test_notebooks_escape_what_a_program_holds():
    module = parse('tir 1.0\n\nmetadata {\n  a.b = "<script>&"\n}\n')
    assert "<script>" not in module._repr_html_()
    assert Page(module._repr_html_()).shown == str(module)


def test_notebooks_show_what_a_kernel_uses(compiled_kernel):
    page = Page(compiled_kernel._repr_html_())
    assert not page.open
    for words in (
        "@k",
        "sm_90a",
        f"{compiled_kernel.plan.shared} bytes per block",
        compiled_kernel.ptx,
    ):
        assert words in page.shown
    assert str(compiled_kernel.stages["input"]) in page.shown
    assert all(remark.message in page.shown for remark in compiled_kernel.remarks)
    machine_code = compiled_kernel.machine_code
    assert f"registers{machine_code.registers} per thread" in page.shown
    assert f"spills{machine_code.spills} bytes per thread" in page.shown


def test_notebooks_show_a_kernel_that_nothing_assembles(compiled_kernel, monkeypatch):
    def missing(_):
        raise CompileError(Diagnostic("TIR0704", "no assembler here"))

    monkeypatch.setattr(type(compiled_kernel), "machine_code", property(missing))
    assert "no assembler here" in Page(compiled_kernel._repr_html_()).shown
