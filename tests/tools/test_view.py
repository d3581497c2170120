"""Pictures: well formed, and what they show is what is counted."""

import re
from collections import Counter
from itertools import combinations, product
from xml.etree import ElementTree

import pytest

from tests.tools.pictures import EXAMPLES, SVG, groups_labelled, module, root, shapes, texts
from tileir.passmanager import run
from tileir.passmanager.printing import Printing
from tileir.textual import parse, print_function
from tileir.tools.main import main
from tileir.tools.view import PICTURES, draw_picture
from tileir.tools.view.clusters import clusters
from tileir.tools.view.diff import pairs, segments
from tileir.tools.view.gallery import KERNELS, drawing
from tileir.tools.view.input import Subject
from tileir.tools.view.loop_nest import coordinate, counters
from tileir.tools.view.naming import ValueNames
from tileir.tools.view.tiles import owners

UNNAMED = """tir 1.0

define kernel void @k(i32* %x, i32 %n) {
entry:
  %0 = add i32 %n, 1
  _ = neg i32 %0
  %1 = mul i32 %n, 3
  %2 = sub i32 %1, %n
  store %x, %2
  ret
}
"""
PICTURES_FOLDER = EXAMPLES.parent / "docs" / "pictures"
DRAWINGS = sorted(set(PICTURES) - {"passes"})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("picture", DRAWINGS)
@pytest.mark.parametrize("name", ["add", "matmul", "mma", "bytes", "cube", "scalar"])
def test_a_picture_is_well_formed_named_and_at_most_1000_pixels_wide(picture, name):
    tree = root(picture, name)
    assert float(tree.get("width")) <= 1000
    assert f"@{name}" in tree.find(SVG + "title").text
    height = float(tree.get("height"))
    assert all(0 <= float(t.get("y")) <= height for t in tree.iter(SVG + "text"))


def test_the_command_writes_what_is_drawn(tmp_path):
    path = tmp_path / "picture.svg"
    file = str(EXAMPLES / "softmax.tir")
    assert main(["view", "cfg", file, "-o", str(path)]) == 0
    assert path.read_text("utf-8") == draw_picture("cfg", Subject(module("softmax")))


@pytest.mark.parametrize("name", ["matmul", "cube"])
def test_values_are_called_what_the_text_calls_them(name):
    function = Subject(module(name)).laid_out
    text, names = print_function(function), ValueNames(function)
    for op in function.ops:
        if op.results and any(v in names.of for v in op.results):
            assert f"  {names.results(op)} = {op.mnemonic} " in text


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["owners", "--value", "%nothing"], "TIR0912"),
        (["access", "--value", "row"], "TIR0912"),
        (["cfg", "--kernel", "f"], "TIR0707"),
        (["passes", "--value", "%row"], "TIR0912"),
        (["defuse", "--pipeline", "cse,nothing"], "TIR0601"),
        (["access", "--program", "583"], "TIR0913"),
        (["shared", "--num-warps", "64"], "TIR0708"),
        (["banks", "--target", "sm_1"], "TIR0702"),
    ],
)
def test_what_is_not_there_is_named(words, code, capsys):
    assert main(["view", words[0], str(EXAMPLES / "softmax.tir"), *words[1:]]) == 1
    message = capsys.readouterr().err
    assert code in message and words[2].removeprefix("%").split(",")[-1] in message


def test_a_close_name_is_suggested(capsys):
    words = ["view", "owners", str(EXAMPLES / "softmax.tir"), "--value", "%shift"]
    assert main(words) == 1
    assert "%shifted" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["nothing"], ["access", "--program", "a,b"], ["access"]])
def test_a_wrong_command_line_says_how_it_should_be(words, capsys):
    file = [] if words == ["access"] else [str(EXAMPLES / "add.tir")]
    with pytest.raises(SystemExit) as ended:
        main(["view", words[0], *file, *words[1:]])
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_an_instance_that_leaves_its_buffers_is_an_error_with_a_place(tmp_path, capsys):
    text = (EXAMPLES / "softmax.tir").read_text("utf-8").replace('run.n = "931"', 'run.n = "9310"')
    path = tmp_path / "wrong.tir"
    path.write_text(text)
    assert main(["view", "access", str(path), "--program", "582"]) == 1
    message = capsys.readouterr().err
    assert "TIR0913" in message and "outside every buffer" in message


# Who holds what -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "elements"), [("softmax", 1024), ("add", 512)])
def test_every_element_is_drawn_once(name, elements):
    (tile,) = groups_labelled(root("owners", name), "tile")
    covered = Counter()
    for area in shapes(tile, "cell"):
        for subpath in area.get("d").split("M")[1:]:
            place, width, *_ = subpath.replace("v", "h").split("h")
            x, y = map(float, place.split())
            scale = float(subpath.split("v")[1].split("h")[0])
            for i in range(round(float(width) / scale)):
                covered[(round(x / scale) + i, round(y / scale))] += 1
    assert len(covered) == elements and set(covered.values()) == {1}


def test_the_layout_of_one_value_alone():
    tree = root("owners", "matmul", value="%acc")
    _, head = texts(tree, "head")
    assert head.startswith("48x32:") and "%acc" in head
    assert len(groups_labelled(tree, "hierarchy")) == 1


def test_a_scalar_is_owned_by_all():
    assert any("every thread has it" in t for t in texts(root("owners", "softmax", value="%max")))


# Control flow -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "matmul"])
def test_a_box_per_block_and_an_arrow_per_branch(name):
    tree = root("cfg", name)
    blocks = module(name).kernel(None).blocks
    heads = {t.split(":")[0] for t in texts(tree, "head")}
    assert set(blocks) <= heads
    assert len(shapes(tree, "box")) == len(blocks)
    branches = sum(len(b.terminator.successors) for b in blocks.values())
    assert len(shapes(tree, "tip")) == branches


def test_blocks_say_where_a_value_is_defined_and_read():
    words = texts(root("cfg", "matmul", value="%kk"))
    assert "defines %kk" in words and "reads %kk: sub, add" in words
    assert "reads %kk: icmp" in words


# Def-use ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "softmax", "matmul", "layer_norm"])
def test_every_op_is_in_one_box_of_its_block(name):
    function = module(name).kernel(None)
    every = frozenset(function.ops)
    for block in function.blocks.values():
        result = clusters(function, block, every)
        assert Counter(op for c in result for op in c.ops) == Counter(block.ops)
        for cluster in result:
            inner = {v for op in cluster.ops[:-1] for v in op.results}
            read = {v for op in function.ops if op not in cluster.ops for v in op.operands}
            assert not inner & read


def test_boxes_are_disjoint_and_arrows_lead_down():
    tree = root("defuse", "matmul")
    for block in module("matmul").kernel(None).blocks:
        (frame,) = groups_labelled(tree, block)
        kinds = ("box", "memory", "heavy", "carried")
        boxes = [_bounds(e) for kind in kinds for e in shapes(frame, kind)]
        for (x, y, w, h), (u, v, k, n) in combinations(boxes, 2):
            assert x + w <= u or u + k <= x or y + h <= v or v + n <= y
        for edge in shapes(frame, "edge"):
            _, *points = re.findall(r"[\d.]+ ([\d.]+)(?=[CLM]|$)", edge.get("d"))
            assert points == sorted(points, key=float)


def _bounds(rectangle):
    return tuple(float(rectangle.get(name)) for name in ("x", "y", "width", "height"))


def test_a_pipeline_runs_before_what_is_drawn(tmp_path):
    path = tmp_path / "picture.svg"
    file = str(EXAMPLES / "matmul.tir")
    assert main(["view", "defuse", file, "--pipeline", "dce", "-o", str(path)]) == 0
    assert "%k32" in draw_picture("defuse", Subject(module("matmul")))
    assert "%k32" not in path.read_text("utf-8")


def test_a_value_shows_what_makes_it_and_what_it_makes():
    words = " ".join(texts(root("defuse", "softmax", value="%sum"), "code"))
    assert "%sum = reduce %num" in words and "%v = load" in words and "store %py %out %in" in words
    assert "%ys" not in words


# Iterations over warps ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("matmul", "%acc.next"), ("softmax", "%out")])
def test_the_loops_shown_go_through_every_element(name, value):
    """The coordinates written in the loops' body, evaluated, are the layout's."""
    subject = Subject(module(name), value=value)
    layout = subject.find_value(subject.laid_out).type.layout
    counters_ = counters(layout)
    assert not any(c.loop.crossed for c in counters_)
    reached = set()
    for index in product(*(range(c.loop.count) for c in counters_)):
        env = dict(zip((c.name for c in counters_), index, strict=True))
        at = [coordinate(counters_, dim) for dim in range(layout.rank)]
        reached.add(tuple(eval(re.sub(r"(\d) (\w)", r"\1*\2", text), {}, env) for text in at))
    assert reached == set(owners(layout, layout.extents))


def test_each_warp_is_shown_what_it_does():
    tree = root("warps", "matmul")
    (frames,) = groups_labelled(tree, "warps")
    assert texts(frames, "head") == [f"warp {i}" for i in range(4)]
    mine = {e.text for e in frames.iter(SVG + "title")}
    assert mine == {"another warp", *(f"warp {i}" for i in range(4))}


# Passes -------------------------------------------------------------------------------------------


def page(name, **options):
    text = draw_picture("passes", Subject(module(name), **options))
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_a_page_of_passes_shows_what_changed_and_folds_what_did_not():
    document = page("matmul", pipeline="cse,dce")
    folded = [d for d in document.iter("details") if d.get("class") == "nothing"]
    (opened,) = [d for d in document.iter("details") if d.get("class") == "pass"]
    assert [li.text for d in folded for li in d.iter("li")] == ["cse on @matmul"]
    assert "61 ops, then 60" in "".join(opened.find("summary").itertext())
    (gone,) = [td for td in opened.iter("td") if td.get("class") == "old"]
    assert "%k32 = splat" in "".join(gone.itertext())
    (counted,) = [t for t in opened.iter("table") if t.get("class") == "counts"]
    assert "splat13 → 12" in "".join(counted.itertext())


def test_both_sides_of_a_page_are_the_texts_themselves():
    document = page("softmax")
    for step in [d for d in document.iter("details") if d.get("class") == "pass"]:
        rows = [r for t in step.iter("table") if t.get("class") == "diff" for r in t.iter("tr")]
        for side in (0, 2):
            numbers = [int(n) for r in rows if (n := r[side].text)]
            assert numbers == list(range(1, len(numbers) + 1))


def test_a_wrong_pipeline_is_an_error(capsys):
    words = ["view", "passes", str(EXAMPLES / "add.tir"), "--pipeline", "cse,nothing"]
    assert main(words) == 1
    assert "TIR0601" in capsys.readouterr().err


OLD = ["a", "%x = add %a, %b", "%y = mul %x, 2", "ret"]
NEW = ["%x = sub %a, %b", "%z = neg %x", "%y = mul %x, 3", "ret"]


def test_changed_lines_are_next_to_what_they_were():
    line_pairs = list(pairs(OLD, NEW))
    columns = {(p.old, p.new) for p in line_pairs}
    assert {("%x = add %a, %b", "%x = sub %a, %b"), ("%y = mul %x, 2", "%y = mul %x, 3")} <= columns
    assert {("a", None), (None, "%z = neg %x"), ("ret", "ret")} <= columns
    assert [p.old for p in line_pairs if p.old] == OLD and [
        p.new for p in line_pairs if p.new
    ] == NEW


def test_lines_that_are_only_numbered_differently_did_not_change():
    """What a removed op changes: every value after it has another number."""
    before, after = parse(UNNAMED), run(parse(UNNAMED), "dce").module
    old, new = (str(m).splitlines() for m in (before, after))
    lines = list(pairs(old, new))
    gone = [(p.old, p.new) for p in lines if not p.same]
    assert gone == [("  %0 = add i32 %n, 1", None), ("  _ = neg i32 %0", None)]
    assert [p.new for p in lines if p.new is not None] == new
    assert "  store %x, %2" in old and "  store %x, %1" in new


def test_operands_that_changed_are_changes_whatever_their_numbers():
    changed = UNNAMED.replace("store %x, %2", "store %x, %1")
    different = [
        (p.old, p.new) for p in pairs(UNNAMED.splitlines(), changed.splitlines()) if not p.same
    ]
    assert different == [("  store %x, %2", "  store %x, %1")]


def test_the_diff_of_a_pass_has_no_line_that_is_only_numbered_differently():
    written: list[str] = []
    run(parse(UNNAMED), "dce", observers=[Printing(str, written.append, changed=True)])
    (diff,) = written
    lines = [
        line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert lines == ["-  %0 = add i32 %n, 1", "-  _ = neg i32 %0"]


def test_what_changed_in_a_line_is_marked():
    left, right = segments("%x = add i32 %a, 1", "%x = sub i32 %a, 1")
    assert [s for only, s in left if only] == ["add"]
    assert [s for only, s in right if only] == ["sub"]
    assert "".join(s for _, s in left) == "%x = add i32 %a, 1"


# The gallery --------------------------------------------------------------------------------------

STEADY = ("cfg", "defuse")
"""Pictures of the module as written, which no change of the backend changes."""


@pytest.mark.parametrize("picture", STEADY)
@pytest.mark.parametrize("kernel", KERNELS)
def test_committed_pictures_are_what_is_drawn(picture, kernel):
    """If not: `python -m tileir.tools.view.gallery`."""
    name, text = drawing(EXAMPLES, kernel, picture)
    assert (PICTURES_FOLDER / name).read_text("utf-8") == text


def test_every_picture_is_committed_and_shown():
    page = (PICTURES_FOLDER.parent / "reference" / "pictures.md").read_text("utf-8")
    expected = {f"{k}-{p}.{'html' if p == 'passes' else 'svg'}" for k in KERNELS for p in PICTURES}
    assert all(f"pictures/{name}" in page for name in expected)
    pages = "".join(p.read_text("utf-8") for p in PICTURES_FOLDER.parent.rglob("*.md"))
    committed = {path.name for path in PICTURES_FOLDER.iterdir()}
    assert expected <= committed
    assert all(f"pictures/{name}" in pages for name in committed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("picture", sorted(PICTURES))
def test_a_picture_is_the_same_every_time(picture):
    assert drawing(EXAMPLES, "softmax", picture) == drawing(EXAMPLES, "softmax", picture)
