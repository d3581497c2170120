"""Pictures: well formed, a square per element, a box per block."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tileir.textual import parse
from tileir.tools.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SVG = "{http://www.w3.org/2000/svg}"


def drawn(name, picture, tmp_path):
    path = tmp_path / "picture.svg"
    file = str(EXAMPLES / f"{name}.tir")
    assert main(["view", file, "--picture", picture, "--out", str(path)]) == 0
    return ElementTree.parse(path).getroot()


@pytest.mark.parametrize("name", ["softmax", "add"])
def test_a_square_per_element(name, tmp_path):
    squares = list(drawn(name, "owners", tmp_path).iter(SVG + "rect"))
    titles = [r.find(SVG + "title").text.split(":")[0] for r in squares]
    assert all(r.get("class") == "cell" for r in squares)
    assert len(set(titles)) == {"softmax": 1024, "add": 512}[name]
    assert len({(r.get("x"), r.get("y")) for r in squares}) == len(squares)


@pytest.mark.parametrize("name", ["softmax", "matmul"])
def test_a_box_per_block(name, tmp_path):
    root = drawn(name, "cfg", tmp_path)
    boxes = [r for r in root.iter(SVG + "rect") if r.get("class") == "box"]
    heads = [t.text for t in root.iter(SVG + "text") if t.get("class") == "head"]
    module = parse((EXAMPLES / f"{name}.tir").read_text("utf-8"))
    assert set(module.kernel(None).blocks) <= set(heads)
    assert len(boxes) == len(heads)
    assert len(list(root.iter(SVG + "path"))) >= len(boxes) - 1
