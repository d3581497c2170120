"""Texts of every release are read, print alike, mean the same (docs/reference/stability.md)."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.sizes import few_or_all
from tileir.op import all_ops
from tileir.testing import stability
from tileir.testing.schema import changes, schema, schema_hash

CORPUS = Path(__file__).parents[1] / "corpus" / "stability"
RELEASES = sorted(CORPUS.iterdir())
HERE = CORPUS / "1.0"


@pytest.mark.parametrize("stride", few_or_all(40, 1))
@pytest.mark.parametrize("folder", RELEASES, ids=lambda p: p.name)
def test_programs_are_printed_as_they_were_and_do_what_they_did(folder: Path, stride: int) -> None:
    wrong = stability.check(folder, stride)
    assert not wrong, f"{len(wrong)} differ, e.g. {wrong[:3]}"


@pytest.mark.parametrize("folder", RELEASES, ids=lambda p: p.name)
def test_no_released_signature_has_changed(folder: Path) -> None:
    """Until 1.0 is released: `python -m tileir.testing.stability record` and say why."""
    old = stability.schema_of(folder)
    assert changes(old, schema()) == []
    version = tuple(map(int, folder.name.split(".")))
    assert schema_hash(schema((version[0], version[1]))) == schema_hash(old)


REFUSED = {
    ("atomic_load", "release"), ("atomic_load", "acq_rel"), ("atomic_store", "acquire"),
    ("atomic_store", "acq_rel"), ("fence", "relaxed"),
}  # fmt: skip
"""Words of attributes that an op does not take (TIR0116)."""


def test_the_corpus_holds_every_op_and_every_word_of_every_attribute() -> None:
    text = stability.programs_of(HERE) + (HERE / "language.tir").read_text()
    names = set(re.findall(r"^  (?:@\S+ )?(?:[%_][^={\n]* = )?([a-z][\w.]*)", text, re.MULTILINE))
    assert {c.mnemonic for c in all_ops() if "." not in c.mnemonic} - names == set()
    lines = defaultdict[str, list[str]](list)
    for line in text.split("\n"):
        for word in set(line.split()):
            lines[word].append(line)
    for name, op in stability.schema_of(HERE).items():
        for field in op["fields"]:
            for word in field.get("words", ()):
                expected = f"{field['name']} = {word}"
                is_default = word == field["default"] or (name, word) in REFUSED
                assert is_default or any(expected in line for line in lines[name]), (name, expected)


def test_the_corpus_is_small() -> None:
    assert sum(p.stat().st_size for p in HERE.iterdir()) < 1 << 20
    assert len(stability.programs_of(HERE).split(stability.SEPARATOR)) > 3500


def test_a_changed_result_is_detected(tmp_path: Path) -> None:
    module = stability.parse("tir 1.0\ndefine kernel void @k(i32* %x) {\nentry:\n  store %x, 7\n"
                             "  ret\n}\n")  # fmt: skip
    recorded = stability.record_run(module, "k", stability.usual_arguments(module.kernel()), (1,))
    assert stability.differences(module, recorded) == []
    other = copy.deepcopy(recorded)
    other["left"]["0"] = other["left"]["0"].replace("07", "08", 1)
    assert stability.differences(module, other)
    assert stability.differences(module, {**recorded, "error": "TIR0501"})


def test_a_text_that_prints_otherwise_is_detected(tmp_path: Path) -> None:
    text = "tir 1.0\n\ndefine  void @f() {\nentry:\n  ret\n}\n"
    plain = text.replace("define  void", "define void")
    texts = stability.SEPARATOR.join([plain, text])
    results = {"programs": [[], []], "language": []}
    (tmp_path / "programs.tir.gz").write_bytes(gzip.compress(texts.encode()))
    (tmp_path / "results.json.gz").write_bytes(gzip.compress(json.dumps(results).encode()))
    (tmp_path / "language.tir").write_text(plain)
    assert stability.check(tmp_path) == ["program 1 is printed differently"]
    assert stability.check(tmp_path, 2) == []


def edit_schema(*path: Any, value: Any = None, drop: bool = False) -> dict[str, Any]:
    """The schema of this release with something of it changed."""
    record = json.loads(json.dumps(schema()))
    at: Any = record
    for key in path[:-1]:
        at = at[key]
    if drop:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return record


OVERFLOW = ("add", "fields", 2)


@pytest.mark.parametrize(
    "new",
    [
        edit_schema("add", drop=True),
        edit_schema("add", "since", value=[1, 1]),
        edit_schema("add", "predicable", value=False),
        edit_schema("add", "results", value=[]),
        edit_schema("add", "fields", 0, drop=True),
        edit_schema("add", "fields", 0, "name", value="left"),
        edit_schema("add", "fields", 0, "kind", value="optional operand"),
        edit_schema("add", "fields", 0, "type", 2, 2, value=["i32"]),
        edit_schema(*OVERFLOW, drop=True),
        edit_schema(*OVERFLOW, "default", value="nsw"),
        edit_schema(*OVERFLOW, "words", value=["none", "nsw"]),
        edit_schema(*OVERFLOW, "form", value="string"),
        edit_schema("neg", "fields", value=[
            *schema()["neg"]["fields"],
            {"name": "new", "kind": "attribute", "form": "int", "words": [], "default": "required"},
        ]),
    ],
)  # fmt: skip
def test_changes_that_break_a_promise(new: dict[str, Any]) -> None:
    old = json.loads(json.dumps(schema()))
    assert changes(old, new)
    assert schema_hash(old) != schema_hash(new)


def test_changes_that_keep_it() -> None:
    old = json.loads(json.dumps(schema()))
    extra = {"name": "new", "kind": "attribute", "form": "int", "words": [], "default": "0"}
    for new in (
        {**old, "another": old["add"]},
        edit_schema(
            "add", "fields", 0, "type", 2, 2, value=["f32", "i1", "i16", "i32", "i64", "i8"]
        ),
        edit_schema(*OVERFLOW, "words", value=["none", "nsw", "nuw", "nsw_nuw", "wraps"]),
        edit_schema("add", "fields", value=[*old["add"]["fields"], extra]),
    ):
        assert changes(old, new) == []
