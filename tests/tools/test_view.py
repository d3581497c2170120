"""Pictures: well formed, and what they show is what is counted."""

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tileir.backend.memory.banks import conflicts, wavefronts
from tileir.textual import parse
from tileir.tools.main import main
from tileir.tools.view import PICTURES, drawn
from tileir.tools.view.access import spans
from tileir.tools.view.banks import wavefront_rows
from tileir.tools.view.gallery import KERNELS, drawing
from tileir.tools.view.subject import Subject

EXAMPLES = Path(__file__).parents[2] / "examples"
PICTURES_FOLDER = EXAMPLES.parent / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"
DRAWINGS = sorted(set(PICTURES) - {"passes"})


def module(name):
    return parse((EXAMPLES / f"{name}.tir").read_text("utf-8"), f"examples/{name}.tir")


def root(picture, name, **options):
    return ElementTree.fromstring(drawn(picture, Subject(module(name), **options)))


def texts(tree, kind=None):
    return [t.text for t in tree.iter(SVG + "text") if kind is None or t.get("class") == kind]


def labelled(tree, label):
    return [g for g in tree.iter(SVG + "g") if g.get("data-label") == label]


def shapes(tree, kind):
    return [e for e in tree.iter() if e.get("class") == kind]


@pytest.mark.parametrize("picture", DRAWINGS)
@pytest.mark.parametrize("name", ["add", "softmax", "matmul"])
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
    assert path.read_text("utf-8") == drawn("cfg", Subject(module("softmax")))


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["owners", "--value", "%nothing"], "TIR0912"),
        (["access", "--value", "row"], "TIR0912"),
        (["cfg", "--kernel", "f"], "TIR0911"),
        (["access", "--program", "583"], "TIR0913"),
        (["shared", "--num-warps", "64"], "TIR0708"),
        (["banks", "--target", "sm_1"], "TIR0702"),
    ],
)
def test_what_is_not_there_is_named(words, code, capsys):
    assert main(["view", words[0], str(EXAMPLES / "softmax.tir"), *words[1:]]) == 1
    message = capsys.readouterr().err
    assert code in message and words[2].removeprefix("%") in message


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
    (tile,) = labelled(root("owners", name), "tile")
    covered = Counter()
    for area in shapes(tile, "cell"):
        for piece in area.get("d").split("M")[1:]:
            place, width, *_ = piece.replace("v", "h").split("h")
            x, y = map(float, place.split())
            scale = float(piece.split("v")[1].split("h")[0])
            for i in range(round(float(width) / scale)):
                covered[(round(x / scale) + i, round(y / scale))] += 1
    assert len(covered) == elements and set(covered.values()) == {1}


def test_the_layout_of_one_value_alone():
    tree = root("owners", "matmul", value="%acc")
    _, head = texts(tree, "head")
    assert head.startswith("48x32:") and "%acc" in head
    assert len(labelled(tree, "hierarchy")) == 1


def test_a_scalar_is_held_by_all():
    assert any("every thread holds it" in t for t in texts(root("owners", "softmax", value="%max")))


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


# Addresses ----------------------------------------------------------------------------------------


def test_pieces_of_lines_are_the_bytes_accessed():
    addresses = [1000 + 12 * i if i % 3 else None for i in range(32)]
    found = spans(addresses, 8)
    covered = {
        (number * 128 + byte, lane)
        for number, held in found.items()
        for span in held
        for byte in range(span.start, span.end)
        for lane in span.lanes
    }
    wanted = {(a + i, lane) for lane, a in enumerate(addresses) if a is not None for i in range(8)}
    assert covered == wanted


def test_sectors_shown_are_sectors_counted():
    """A row of 931 elements of 1024: the picture's totals are the machine's."""
    words = [t for t in texts(root("access", "softmax")) if "over the whole instance" in t]
    assert len(words) == 2
    assert all("30 accesses, 117 sectors; 117 would hold" in w for w in words)


# Banks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("stride", [0, 1, 3, 32, 33])
def test_wavefronts_shown_are_wavefronts_counted(size, stride):
    offsets = [i * stride * size if i % 7 else None for i in range(32)]
    rows = wavefront_rows(offsets, size)
    assert len(rows) == wavefronts(offsets, size)
    assert sum(row.lost for row in rows) == conflicts(offsets, size)
    shown = Counter(lane for row in rows for word in row.words for lane in word.lanes)
    words = max(1, size // 4)
    assert all(shown[i] == (0 if o is None else words) for i, o in enumerate(offsets))
    assert all(len({w.bank for w in row.words}) == len(row.words) for row in rows)


# The gallery --------------------------------------------------------------------------------------

STEADY = ("cfg",)
"""Pictures of the module as written, which no change of the backend changes."""


@pytest.mark.parametrize("picture", STEADY)
@pytest.mark.parametrize("kernel", KERNELS)
def test_committed_pictures_are_what_is_drawn(picture, kernel):
    """If not: `python -m tileir.tools.view.gallery`."""
    name, text = drawing(EXAMPLES, kernel, picture)
    assert (PICTURES_FOLDER / name).read_text("utf-8") == text


def test_every_picture_is_committed_and_shown():
    page = (PICTURES_FOLDER.parent / "pictures.md").read_text("utf-8")
    wanted = {f"{k}-{p}.{'html' if p == 'passes' else 'svg'}" for k in KERNELS for p in PICTURES}
    assert {path.name for path in PICTURES_FOLDER.iterdir()} == wanted
    assert all(f"pictures/{name}" in page for name in wanted)


@pytest.mark.parametrize("picture", sorted(PICTURES))
def test_a_picture_is_the_same_every_time(picture):
    assert drawing(EXAMPLES, "softmax", picture) == drawing(EXAMPLES, "softmax", picture)
