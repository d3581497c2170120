"""Results of benchmarks: merged row by row, and in the documentation as they are in the files."""

import re

import pytest


@pytest.fixture(scope="module")
def tables(benchmarks):
    return benchmarks("tables")


@pytest.fixture(scope="module")
def merge(benchmarks):
    return benchmarks("merge")


ASKS_THE_COST_MODEL = {"matmul_shapes"}
"""Tables whose check takes a minute."""
FIGURE = re.compile(r"(?<![\w.³x-])\d+\.\d{2,}(?![\w.])")


def test_the_documentation_has_what_was_measured(tables):
    text = tables.DOCS.read_text()
    names = re.findall(r"<!-- table: (\w+) -->", text)
    assert sorted(names) == sorted(tables.TABLES)
    for name in sorted(set(names) - ASKS_THE_COST_MODEL):
        table = tables.markdown(tables.TABLES[name]())
        assert f"{tables.mark(name)}\n\n{table}\n\n{tables.END}" in text, name


@pytest.mark.slow
def test_the_documentation_has_what_the_cost_model_chooses(tables):
    for name in ASKS_THE_COST_MODEL:
        assert tables.markdown(tables.TABLES[name]()) in tables.DOCS.read_text()


def test_readme_has_what_was_measured(tables):
    text = tables.README.read_text()
    names = re.findall(r"<!-- table: (\w+) -->", text)
    assert names
    for name in names:
        table = tables.markdown(tables.TABLES[name]())
        assert f"{tables.mark(name)}\n\n{table}\n\n{tables.END}" in text, name


@pytest.mark.parametrize("page", ["DOCS", "README"])
def test_measurements_stand_in_tables_that_are_checked(tables, page):
    """Figures of prose would not be compared with the results, and were wrong before."""
    text = re.sub(
        r"<!-- table.*?<!-- end of table -->", "", getattr(tables, page).read_text(), flags=re.S
    )
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    versions = re.compile(r"(torch|Triton|numpy|xDSL|nvJitLink|TileLang|Python|CUDA|to) [\d.]+")
    assert FIGURE.findall(versions.sub("", prose)) == []


def test_marks_that_are_missing_are_an_error(tables):
    with pytest.raises(ValueError, match="there is no begin"):
        tables.replace_between("text end", "begin", "end", "table")
    with pytest.raises(ValueError, match="there is no end"):
        tables.replace_between("text begin", "begin", "end", "table")


def test_a_table_takes_the_place_of_the_one_before(tables):
    once = tables.replace_between("a\nbegin\nold\nend\nz", "begin", "end", "| 1 |")
    assert once == "a\nbegin\n\n| 1 |\n\nend\nz"
    assert tables.replace_between(once, "begin", "end", "| 1 |") == once


@pytest.mark.parametrize(
    ("tile", "name"),
    [
        ("64x32x128 w0 s0 once flat", "64x32x128 once flat"),
        ("64x16x128 w0 s4 once by 4", "64x16x128 4 stages once by 4"),
        ("256x128x64 w8 s0", "256x128x64"),
        ("192x160x128 w0 s0 pingpong", "192x160x128 ping-pong"),
    ],
)
def test_tiles_have_short_names(tables, tile, name):
    assert tables.short(tile) == name


def test_rows_take_the_place_of_those_of_the_same_problem(merge):
    old_results = {"commit": "old", "rows": [{"name": "a", "us": 1}, {"name": "b", "us": 2}]}
    new = {"gpu": "H200", "rows": [{"name": "b", "us": 3}, {"name": "c", "us": 4}]}
    assert merge.merge_rows(old_results, new, "new") == {
        "gpu": "H200",
        "commit": "new",
        "rows": [
            {"name": "a", "us": 1, "commit": "old"},
            {"name": "b", "us": 3, "commit": "new"},
            {"name": "c", "us": 4, "commit": "new"},
        ],
    }
