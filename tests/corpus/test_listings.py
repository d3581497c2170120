"""The listings of Triton-IR that the language comes from: repaired ones are canonical text and
mean what their documents say; printed ones are next to them."""

from pathlib import Path

import attrs
import numpy as np
import pytest

import tileir
from tileir.compare import structurally_equal
from tileir.linker import link
from tileir.passmanager import run
from tileir.textual import parse, print_module

FOLDER = Path(__file__).parent / "listings"
NAMES = ("add", "listing5", "listing6", "listing7")


def listing(name: str) -> tileir.Module:
    path = FOLDER / f"{name}.tir"
    return parse(path.read_text(), path.name)


def run_optimised(module, name, grid, arguments, pipeline):
    """The arguments after a run of `module`, optimised by `pipeline` first."""
    changed = run(link(module), pipeline).module if pipeline else link(module)
    tileir.interpret(changed, name, grid, arguments)
    return arguments


PIPELINES = pytest.mark.parametrize("pipeline", ["", "lower-predicates", "default"])


@pytest.mark.parametrize("name", NAMES)
def test_repaired_listings_are_printed_as_they_are_written(name):
    text = (FOLDER / f"{name}.tir").read_text()
    assert print_module(parse(text)) == text


@pytest.mark.parametrize("name", NAMES)
def test_what_was_printed_is_next_to_what_was_repaired(name):
    assert (FOLDER / f"{name}.printed.tir").exists()


@pytest.mark.parametrize("name", ["listing5", "listing6", "listing7"])
def test_listings_of_the_paper_are_no_canonical_text_as_printed(name):
    with pytest.raises(tileir.ParseError):
        parse((FOLDER / f"{name}.printed.tir").read_text())


@PIPELINES
def test_add_adds_within_its_bound(pipeline):
    x, y = np.arange(1000, dtype=np.int32), np.full(1000, 7, np.int32)
    z = np.full(1000, -1, np.int32)
    arguments = {"X": x, "Y": y, "Z": z, "N": 998}
    run_optimised(listing("add"), "add", (2,), arguments, pipeline)
    assert (z[:998] == x[:998] + 7).all() and (z[998:] == -1).all()


@PIPELINES
def test_listing_5_is_relu_of_a_matrix_of_any_size(pipeline):
    rows, columns = 13, 21
    a = np.random.default_rng(0).standard_normal((columns, rows), np.float32)
    expected = np.maximum(a, 0)
    arguments = {"A": a, "M": rows, "N": columns}
    run_optimised(listing("listing5"), "relu", (2, 3), arguments, pipeline)
    assert (a == expected).all()


LISTING_6 = """tir 1.0
declare i32<8, 8> @listing6(i32<8, 8> %x, i32<8, 8> %y)
define kernel void @k(i32* %x, i32* %y, i32* %z) {
entry:
  %r = make_range i32<64>
  %s = reshape i32<8, 8> %r
  %xs = splat i32*<8, 8> %x
  %px = getelementptr i32*<8, 8> %xs, %s
  %vx = load i32<8, 8> %px
  %ys = splat i32*<8, 8> %y
  %py = getelementptr i32*<8, 8> %ys, %s
  %vy = load i32<8, 8> %py
  %v = call i32<8, 8> @listing6, %vx, %vy
  %zs = splat i32*<8, 8> %z
  %pz = getelementptr i32*<8, 8> %zs, %s
  store %pz, %v
  ret
}
"""


@PIPELINES
def test_listing_6_chooses_by_predicate(pipeline):
    x, y = np.arange(64, dtype=np.int32) % 11, np.arange(64, dtype=np.int32)
    z = np.zeros(64, np.int32)
    module = link(parse(LISTING_6), listing("listing6"))
    run_optimised(module, "k", (1,), {"x": x, "y": y, "z": z}, pipeline)
    assert (z == 2 * np.where(x < 5, y + 1, y - 1)).all()


LISTING_7 = """tir 1.0
declare f32<16> @listing7(f32*<16> %base, i32<16> %from, i32<16> %step, i32 %n)
define kernel void @k(f32* %x, f32* %z, i32 %n) {
entry:
  %r = make_range i32<16>
  %xs = splat f32*<16> %x
  %sum = call f32<16> @listing7, %xs, %r, i32<16> 16, %n
  %zs = splat f32*<16> %z
  %pz = getelementptr f32*<16> %zs, %r
  store %pz, %sum
  ret
}
"""


@PIPELINES
@pytest.mark.parametrize("trips", [1, 2, 5])
def test_listing_7_adds_prefetched_tiles(trips, pipeline):
    x = np.random.default_rng(1).integers(-9, 9, 16 * (trips + 1)).astype(np.float32)
    z = np.zeros(16, np.float32)
    module = link(parse(LISTING_7), listing("listing7"))
    run_optimised(module, "k", (1,), {"x": x, "z": z, "n": trips}, pipeline)
    assert (z == x.reshape(-1, 16)[:trips].sum(0)).all()


def test_the_triton_1_spelling_of_add_is_read_as_printed():
    text = (FOLDER / "add.printed.tir").read_text()
    assert structurally_equal(
        attrs.evolve(parse(text, dialect="triton1"), header_comments=()),
        attrs.evolve(listing("add"), header_comments=()),
    )


def bare(module: tileir.Module) -> tileir.Module:
    """`module` without comments, in which the spellings differ."""
    functions = {
        name: attrs.evolve(
            f, comments=(),
            blocks={
                label: attrs.evolve(b, comments=(), ops=[op.evolve(comments=()) for op in b.ops])
                for label, b in f.blocks.items()
            },
        )
        for name, f in module.functions.items()
    }  # fmt: skip
    return attrs.evolve(module, functions=functions, comments=(), header_comments=())


@pytest.mark.parametrize("name", ["listing5", "listing6", "listing7"])
def test_listings_in_the_spelling_of_the_paper_are_the_canonical_ones(name):
    path = FOLDER / f"{name}.mapl19"
    read = parse(path.read_text(), path.name, dialect="mapl19")
    assert structurally_equal(bare(read), bare(listing(name)))


@pytest.mark.parametrize(
    ("name", "code", "wrong"),
    [
        ("listing5", "TIR0005", "%float %a"),  # no value
        ("listing6", "TIR0005", "%y, 1"),  # not defined
        ("listing7", "TIR0005", "%1, %2"),  # not defined
    ],
)
def test_what_is_wrong_with_a_listing_as_printed_is_shown_where_it_is(name, code, wrong):
    text = (FOLDER / f"{name}.printed.tir").read_text()
    with pytest.raises(tileir.ParseError) as error:
        parse(text, dialect="mapl19")
    before = text[: text.index(wrong)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert (error.value.code, error.value.line, error.value.column) == (code, line, column)


@pytest.mark.parametrize("line", ["%0 := add i32 1, 2;", "def int f() {", "def void f(i32) {"])
def test_lines_of_another_form_are_refused_at_their_place(line):
    with pytest.raises(tileir.ParseError) as error:
        parse(f"\n{line}\n", dialect="triton1")
    assert error.value.code == "TIR0001" and error.value.line == 2
