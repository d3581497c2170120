"""The private words that the terms of the field replaced do not return (`vocabulary.py`)."""

import pytest

from tests import vocabulary

ADVICE = "use the field's term (tests/vocabulary.py says which and lists the uses)"


def test_private_words_do_not_return():
    """Uses per word and folder are at most those that are left; `--lower` records fewer."""
    table, maxima = vocabulary.counts(), vocabulary.maxima()
    more = [
        f"{folder}: {word} {count}, at most {maxima[folder].get(word, 0)}: "
        + (vocabulary.WORDS[word].instead if word in vocabulary.WORDS else "")
        for folder in vocabulary.FOLDERS
        for word, count in table[folder].items()
        if count > maxima[folder].get(word, 0)
    ]
    assert not more, ADVICE


def test_numbers_are_of_words_and_folders_that_are_scanned():
    maxima = vocabulary.maxima()
    assert set(maxima) == set(vocabulary.FOLDERS)
    assert {word for table in maxima.values() for word in table} <= set(vocabulary.WORDS)


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
    ],
)
def test_uses_are_noticed_in_identifiers_strings_and_comments(source, word):
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
    ],
)
def test_ordinary_uses_are_allowed(source):
    uses = vocabulary.python_uses("sample.py", source)
    assert not [use for use in uses if not vocabulary.is_allowed(use)]


def test_entries_of_the_allow_list_have_a_reason_and_are_used():
    used = set()
    for _, path in vocabulary.files():
        for use in vocabulary.all_uses_in(path):
            used |= {entry for entry in vocabulary.ALLOWED if vocabulary.allows(entry, use)}
    assert used == set(vocabulary.ALLOWED)
    assert all(entry.reason for entry in vocabulary.ALLOWED)
