"""The private words that the terms of the field replaced do not return (`vocabulary.py`)."""

import ast
import re

import pytest

from tests import sources, vocabulary


def test_private_words_do_not_return():
    uses = [vocabulary.line_of(use) for use in vocabulary.uses()]
    assert not uses, "use the terms of the field"


def test_private_words_do_not_return_to_the_tests():
    uses = [vocabulary.line_of(use) for use in vocabulary.uses_in_tests()]
    assert not uses, "use the terms of the field"
    assert not list(vocabulary.lines_of_tests()), "use the terms of the field"
    for line in ("test_x_beside_y", "# behind it", "it was unnoticed", "Seed 003"):
        assert vocabulary.NOT_IN_TESTS.search(line), line
    assert not vocabulary.NOT_IN_TESTS.search("besides the seed 0")


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("def roomsOf(x): pass", "room"),
        ("class SecondFactor: pass", "factor"),
        ("def f():\n    found = 1", "found"),
        ("def f(*, given): pass", "given"),
        ("x = y.held_values", "held"),
        ("f(lie_apart=1)", "apart"),
        ("import a as home", "home"),
        ('"""Ring buffers.\n\nThreads meet before it."""', "meet"),
        ('raise E(f"{x} is behind the loop")', "behind"),
        ("x = 1  # of each piece", "piece"),
        ("# Seed 003, section 2", "seed"),
        ("def carried(x): pass", "participle"),
        ("def f(request):\n    asked = request", "asked"),
        ("def f():\n    return [taken for taken in ()]", "taken"),
        ("def _thin(x): pass", "thin"),
        ('raise E(f"the buffer holds {x}")', "holds"),
    ],
)
def test_uses_are_detected_in_identifiers_strings_and_comments(source, word):
    assert word in {use.word for use in vocabulary.python_uses("sample.py", source)}


def test_lines_are_those_of_the_words():
    source = '"""A ring.\n\nThreads meet before it."""\nx = 1\n# nobody reads it\n'
    uses = [(use.word, use.line) for use in vocabulary.python_uses("sample.py", source)]
    assert uses == [("meet", 3), ("nobody", 5)]


@pytest.mark.parametrize(
    "source",
    [
        "x = sum(values)",
        "operand = ring.stage",
        "import itertools\nitertools.product(a, b)",
        '"""Rounds to the nearest even number; the scale factor is given and was found."""',
        "class A:\n    __slots__ = ()",
        "def needs_barrier(x): pass",
        "def feed(x): pass",
        'def f():\n    """Whether a bound holds."""',
    ],
)
def test_ordinary_uses_are_allowed(source):
    uses = vocabulary.python_uses("sample.py", source)
    assert not [use for use in uses if not vocabulary.is_allowed(use)]


def test_entries_of_the_allow_list_have_a_reason_and_are_used():
    used = set()
    for path in vocabulary.files():
        for use in vocabulary.all_uses_in(path):
            used |= {entry for entry in vocabulary.ALLOWED if vocabulary.allows(entry, use)}
    assert used == set(vocabulary.ALLOWED)
    assert all(entry.reason for entry in vocabulary.ALLOWED)


def test_entries_of_the_allow_list_of_the_tests_have_a_reason_and_are_used():
    uses = {use for path in vocabulary.test_files() for use in vocabulary.uses_in(path)}
    for entry in vocabulary.ALLOWED_IN_TESTS:
        assert entry.reason
        assert any(vocabulary.allows(entry, use) for use in uses), entry


def test_docstrings_state_rules_as_sentences():
    label = re.compile(r"^ +(- )?[A-Z]{3,}( {2,}|: )\S|\A[A-Z]{3,}(\Z|: )", re.M)
    functions = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
    labelled = [
        f"{path.relative_to(vocabulary.ROOT)}:{node.lineno}"
        for path in vocabulary.files()
        if path.suffix == ".py"
        for node in sources.nodes(path, *functions)
        if label.search(ast.get_docstring(node, clean=False) or "")
    ]
    assert not labelled, "name rules by sentences, not by labels such as THIN"


def test_docstrings_begin_with_their_subject():
    """A docstring that begins with a relative clause or a genitive has no subject of its own."""
    opening = re.compile(r"(What|Who|Whom|Whose|Of|By|Those|That of|Told|Is told|How)\b")
    elliptical = [
        f"{path.relative_to(vocabulary.ROOT)}:{node.lineno}: {text}"
        for path in vocabulary.files()
        if path.suffix == ".py"
        for node in sources.nodes(path, ast.FunctionDef, ast.ClassDef)
        if opening.match(text := (ast.get_docstring(node) or "").partition("\n")[0])
    ]
    assert not elliptical, "begin with a verb or a noun: `The size of ...`, `Return ...`"
