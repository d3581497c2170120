"""What tests of pictures share: kernels to draw, and looking into drawings."""

from pathlib import Path
from xml.etree import ElementTree

from tileir.textual import parse
from tileir.tools.view import draw_picture
from tileir.tools.view.input import Subject

EXAMPLES = Path(__file__).parents[2] / "examples"
OWN = Path(__file__).parent / "view"
SVG = "{http://www.w3.org/2000/svg}"


def module(name):
    folder = EXAMPLES if (EXAMPLES / f"{name}.tir").exists() else OWN
    return parse((folder / f"{name}.tir").read_text("utf-8"), f"{name}.tir")


def root(picture, name, **options):
    return ElementTree.fromstring(draw_picture(picture, Subject(module(name), **options)))


def texts(tree, kind=None):
    return [t.text for t in tree.iter(SVG + "text") if kind is None or t.get("class") == kind]


def groups_labelled(tree, label):
    return [g for g in tree.iter(SVG + "g") if g.get("data-label") == label]


def shapes(tree, kind):
    return [e for e in tree.iter() if e.get("class") == kind]
