"""Reading takes work in proportion to the text, whatever is repeated in it: calls of Python and
steps of what it calls are counted, not seconds. What is nested deeply is refused; what is printed
can be read."""

from __future__ import annotations

import sys

import pytest

from tileir.errors import MAX_ERRORS, MAX_MESSAGE, ParseError, TileirError
from tileir.passmanager import run
from tileir.textual import parse, print_module
from tileir.textual.lexer import Cursor

HEAD = "tir 1.0\n\n"


def kernel(body: str, parameters: str = "f32* %x, i32 %n, i1 %p") -> str:
    return f"{HEAD}define kernel void @k({parameters}) {{\nentry:\n{body}  ret\n}}\n"


def lists(n: int, item: str = "%n") -> str:
    return ", ".join([item] * n)


PRODUCTIONS = {
    "results": lambda n: kernel(
        "  " + ", ".join(f"%a{i}" for i in range(n)) + " = split (f32, f32) %x\n"
    ),
    "the same result": lambda n: kernel(f"  {lists(n, '%a')} = split (f32, f32) %x\n"),
    "psi": lambda n: kernel(f"  %r = psi i32 {lists(n, '[%p, %n]')}\n"),
    "psi of comparisons": lambda n: kernel(
        "".join(f"  %c{i}, %d{i} = icmp (i1, i1) %n, {i} {{predicate = eq}}\n" for i in range(n))
        + f"  %r = psi i32 {', '.join(f'[%c{i}, %n]' for i in range(n))}\n"
    ),
    "a ring of calls": lambda n: (
        HEAD
        + "".join(
            f"define private i32 @f{i}(i32 %x) {{\nentry:\n  %a = call i32 @f{(i + 1) % n}, %x\n"
            "  ret %a\n}\n"
            for i in range(n)
        )
    ),
    "a chain of calls": lambda n: (
        HEAD
        + "".join(
            f"define private i32 @f{i}(i32 %x) {{\nentry:\n"
            f"  %a = call i32 @f{i + 1}, %x\n  ret %a\n}}\n"
            for i in range(n)
        )
        + f"define private i32 @f{n}(i32 %x) {{\nentry:\n  ret %x\n}}\n"
    ),
    "calls of all before": lambda n: (
        HEAD
        + "define private i32 @f0(i32 %x) {\nentry:\n  ret %x\n}\n"
        + "define private i32 @g(i32 %x) {\nentry:\n"
        + "".join("  %a.% = call i32 @f0, %x\n".replace("%a.%", f"%a{i}") for i in range(n))
        + "  ret %x\n}\n"
    ),
    "parameters": lambda n: kernel("", ", ".join(f"f32* %p{i}" for i in range(n))),
    "the same parameter": lambda n: kernel("", lists(n, "f32* %p")),
    "call arguments": lambda n: (
        HEAD
        + f"declare void @g({', '.join(f'i32 %a{i}' for i in range(n))})\n"
        + kernel(f"  call @g, {lists(n)}\n")[len(HEAD) :]
    ),
    "blocks": lambda n: kernel("".join(f"  br b{i}\nb{i}:\n" for i in range(n))),
    "phis": lambda n: kernel(
        "  br b\nb:\n" + "".join(f"  %q{i} = phi i32 [%n, entry]\n" for i in range(n))
    ),
    "branches to one block": lambda n: kernel(
        "".join(f"  cond_br %p, out, b{i}\nb{i}:\n" for i in range(n)) + "  br out\nout:\n"
    ),
    "a phi of many": lambda n: kernel(
        "".join(f"  cond_br %p, out, b{i}\nb{i}:\n" for i in range(n))
        + "  br out\nout:\n  %v = phi i32 "
        + ", ".join(f"[%n, {b}]" for b in ["entry", *(f"b{i}" for i in range(n))])
        + "\n"
    ),
    "unreached blocks": lambda n: kernel("  ret\n" + "".join(f"b{i}:\n  ret\n" for i in range(n))),
    "names not defined": lambda n: kernel(
        "".join(f"  %a{i} = add i32 %z{i}, 1\n" for i in range(n))
    ),
    "names used ahead": lambda n: kernel(
        "  br b\nc:\n"
        + "".join(f"  %a{i} = add i32 %z{i}, 1\n" for i in range(n))
        + "  ret\nb:\n"
        + "".join(f"  %z{i} = add i32 %n, 1\n" for i in range(n))
        + "  br c\nd:\n"
    ),
    "globals": lambda n: HEAD + "".join(f"global f32 @g{i} = 0.0\n" for i in range(n)),
    "initial values": lambda n: f"{HEAD}global f32<{n}> @g = [{lists(n, '1.0')}]\n",
    "metadata": lambda n: (
        HEAD + "metadata {\n" + ",\n".join(f"  a.b{i} = {i}" for i in range(n)) + "\n}\n"
    ),
    "a list in metadata": lambda n: f"{HEAD}metadata {{\n  a = [{lists(n, '1')}]\n}}\n",
    "attributes of a function": lambda n: kernel("").replace(
        ") {\n", ") {" + ", ".join(f"a{i} = {i}" for i in range(n)) + "} {\n"
    ),
    "comments": lambda n: HEAD + "; words\n" * n,
    "comments before an op": lambda n: kernel("  ; words\n" * n),
    "comments and empty lines": lambda n: kernel("  ; words\n\n" * n),
    "comments before phis": lambda n: kernel(
        "  br b\nb:\n" + "".join(f"  ; words\n  %q{i} = phi i32 [%n, entry]\n" for i in range(n))
    ),
    "phis that lack values": lambda n: kernel(
        "".join(f"  cond_br %p, out, b{i}\nb{i}:\n" for i in range(n))
        + "  br out\nout:\n"
        + "".join(f"  %v{i} = phi i32 [%n, entry]\n" for i in range(n))
    ),
    "uses that nothing dominates": lambda n: kernel(
        "".join(
            f"  cond_br %p, b{i}, c{i}\nb{i}:\n  %v{i} = add i32 %n, 1\n  br c{i}\n"
            f"c{i}:\n  %w{i} = add i32 %v{i}, 1\n"
            for i in range(n)
        )
    ),
    "ops after the end": lambda n: kernel("  ret\n" * n),
    "empty lines": lambda n: HEAD + "\n" * n,
    "predicated ops": lambda n: kernel(
        "".join(f"  @%p %a{i} = add i32 {'%n' if not i else f'%a{i - 1}'}, 1\n" for i in range(n))
    ),
    "nested predicates": lambda n: kernel(
        "".join(
            f"  @{'%p' if not i else f'%c{i - 1}'} %c{i}, %d{i} = "
            f"icmp (i1, i1) %n, {i} {{predicate = slt}}\n"
            for i in range(n)
        )
    ),
    "a chain of ands": lambda n: kernel(
        "".join(f"  %c{i} = and i1 {'%p' if not i else f'%c{i - 1}'}, %p\n" for i in range(n))
        + f"  @%c{n - 1} store %x, 1.0\n"
    ),
    "locations": lambda n: kernel('  store %x, 1.0 loc("f":1:2)\n' * n),
    "strings": lambda n: f'{HEAD}metadata {{\n  a = "{"x" * n}"\n}}\n',
    "layouts": lambda n: (
        'tir 1.0\nstage "layouts"\n'
        + "".join(
            f"#l{i} = layout(rank = 1, lane = [[1], [2], [4], [8], [16]])\n" for i in range(n)
        )
    ),
    "attributes of an op": lambda n: kernel(f"  %a = add i32 %n, 1 {{{lists(n, 'a = 1')}}}\n"),
    "a line that is not text": lambda n: kernel(f"  {'$' * n}\n"),
    "words": lambda n: kernel(f"  {'add ' * n}\n"),
    "open brackets": lambda n: kernel(f"  %a = psi i32 {'[' * n}\n"),
}


def work(action, *arguments) -> int:
    """Calls and lines of Python that `action` takes, and the bytes that its calls to C look at
    cannot be counted: comparisons of what is repeated are written in Python here."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        action(*arguments)
    except TileirError:
        pass
    finally:
        sys.settrace(old)
    return count


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", PRODUCTIONS)
def test_reading_is_linear(name):
    text = PRODUCTIONS[name]
    work(parse, text(40))
    small, large = (work(parse, text(n)) for n in (120, 480))
    assert large < 6 * small + 2000, f"{small} steps for 120, {large} for 480"


@pytest.mark.parametrize("name", ["blocks", "branches to one block", "phis"])
def test_simplify_cfg_is_linear_in_blocks(name):
    modules = [parse(PRODUCTIONS[name](n)) for n in (40, 120, 480)]
    _, small, large = (work(run, module, "simplify-cfg") for module in modules)
    assert large < 6 * small + 2000, f"{small} steps for 120, {large} for 480"


@pytest.mark.parametrize("name", ["nested predicates", "predicated ops", "a chain of ands"])
def test_lowering_predicates_is_linear(name):
    modules = [parse(PRODUCTIONS[name](n)) for n in (40, 120, 480)]
    _, small, large = (work(run, module, "lower-predicates") for module in modules)
    assert large < 6 * small + 2000, f"{small} steps for 120, {large} for 480"


NESTING = [
    "tensor_desc<", "shared<", "staging<", "barrier<", "f32<", "(", "[", "{", "@(", "call i32 @f(",
    "layout(", "layout(rank = 1, lane = [", "f32*", "addrspace(3)*", "psi ", "loc(", "<", '"',
    "tensor_desc<f32<", "shared<tensor_desc<", "metadata {a = ", "metadata {a = [", "a = [",
]  # fmt: skip
PLACES = [
    "declare void @f({} %p)\n", "define void @f() {{\nentry:\n  %a = {}\n  ret\n}}\n", "{}\n",
    "metadata {{a = {}}}\n", "global {} @g = 1\n", "global f32<2> @g = {}\n", "#l = {}\n",
    "define void @f() {{\nentry:\n  %a = add i32 {}\n  ret\n}}\n",
    "define void @f() {{\nentry:\n  @{} ret\n}}\n", "define {} @f() {{\nentry:\n  ret\n}}\n",
    "define void @f() {{a = {}}} {{\nentry:\n  ret\n}}\n",
    "define void @f() {{\nentry:\n  %a = add i32 1, 1 {{overflow = {}}}\n  ret\n}}\n",
]  # fmt: skip


@pytest.mark.sampled(7)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_nested_deeply_is_refused(place):
    for item in NESTING:
        for head in ("tir 1.0\n", 'tir 1.0\nstage "layouts"\n', ""):
            for syntax in (parse,):
                with pytest.raises(ParseError) as caught:
                    syntax(head + place.format(item * 5000))
                assert caught.value.location is not None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", [n for n in PRODUCTIONS if n in ("parameters", "psi", "initial values", "a phi of many",
                                             "a list in metadata", "call arguments", "phis")]
)  # fmt: skip
def test_what_is_printed_can_be_read(name):
    text = PRODUCTIONS[name](60_000 if name in ("parameters", "psi", "initial values") else 2000)
    printed = print_module(parse(text.replace(", ", ",\n") if name == "parameters" else text))
    assert print_module(parse(printed)) == printed


@pytest.mark.parametrize(
    "name", ["phis that lack values", "uses that nothing dominates", "ops after the end"]
)
def test_errors_are_a_hundred_at_most(name):
    with pytest.raises(TileirError) as caught:
        parse(PRODUCTIONS[name](400))
    assert len(caught.value.diagnostics) == MAX_ERRORS


def test_the_ends_of_a_long_message_are_kept():
    with pytest.raises(ParseError) as caught:
        parse(kernel(f"  %a = begin{'x' * 10**6}end i32 %n\n"))
    message = caught.value.diagnostics[0].message
    assert len(message) < MAX_MESSAGE + 100 and "begin" in message and "end" in message
    with pytest.raises(ParseError) as caught:
        parse(kernel(f'  %a = add i32 %x, 1 loc("{"f" * 10**6}":1:2)\n'))
    assert len(str(caught.value)) < MAX_MESSAGE


def test_comments_cost_the_same_after_a_thousand(monkeypatch):
    """Copies of lists are no steps of Python: what the cursor is given is counted."""
    handed = []
    seek = Cursor.seek

    def count(self, offset, line, comments=()):
        handed.append(len(comments))
        return seek(self, offset, line, comments)

    monkeypatch.setattr(Cursor, "seek", count)
    for name in ("comments before an op", "comments and empty lines"):
        handed.clear()
        parse(PRODUCTIONS[name](1000))
        assert sum(handed) <= 2000


def test_findings_of_recursion_are_few_and_of_every_kind():
    with pytest.raises(TileirError) as caught:
        parse(PRODUCTIONS["a ring of calls"](500))
    assert [d.code for d in caught.value.diagnostics] == ["TIR0306"] * 16
    assert "@f0 calls itself through @f1" in str(caught.value)
    parse(PRODUCTIONS["a chain of calls"](500))


class SearchedText(str):
    """A text that counts how often it is searched from its start."""

    searches = 0

    def __contains__(self, part: str) -> bool:
        type(self).searches += 1
        return super().__contains__(part)

    def count(self, *arguments) -> int:
        type(self).searches += len(arguments) == 1
        return super().count(*arguments)


@pytest.mark.parametrize(
    "line",
    [
        "define void @f{0}(\n) {{\nentry:\n  ret\n}}\n",
        "define void @f{0}() {{ ; words\nentry:\n  ret\n}}\n",
        "define void @f{0}() {{\nentry:\n  ret\n}} ; words\n",
        "declare void @f{0}(\n)\n",
        "global i32 @g{0} =  1 ; words\n",
    ],
)
def test_the_whole_text_is_searched_once_however_many_items_it_has(line):
    def searches(n: int) -> int:
        SearchedText.searches = 0
        parse(SearchedText(HEAD + "".join(line.format(i) for i in range(n))))
        return SearchedText.searches

    assert searches(20) == searches(2)
