"""The version matrix: what was found, in the documentation as in the file."""

import json

import pytest

from tileir_triton.hook import NEWEST, OLDEST


@pytest.fixture(scope="module")
def versions(benchmarks):
    return benchmarks("triton_versions")


@pytest.fixture(scope="module")
def results(versions):
    return json.loads(versions.RESULTS.read_text())


def test_the_documentation_has_what_was_found(versions, results):
    table = versions.markdown(versions.lines(results))
    text = versions.PAGE.read_text()
    assert f"{versions.mark(versions.NAME)}\n\n{table}\n\n{versions.END}" in text


def test_a_release_of_each_minor_version_was_tried(versions, results):
    assert tuple(results) == versions.VERSIONS
    minors = [tuple(map(int, v.split(".")[:2])) for v in results]
    assert minors == [(3, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]


def test_all_is_compiled_and_right(versions, results):
    assert versions.print_faults(results) == 0
    assert {len(rows) for rows in results.values()} == {10, 11}


def test_a_cell_names_what_is_right(versions):
    assert versions.cell(None) == "-"
    assert versions.cell({"sm_90a": "right", "native": "ValueError: x"}) == "GPU"
    assert versions.cell({"sm_90a": "E", "native": "E", "interpreter": "E"}) == "no"


def test_what_is_not_right_is_an_error(versions, capsys):
    rows = {"3.9.0": {"add": {"sm_90a": "right", "native": "AssertionError: x"}}}
    assert versions.print_faults(rows) == 1
    assert "3.9.0 add native: AssertionError: x" in capsys.readouterr().out


def test_ci_tests_the_oldest_and_the_newest_release(versions):
    text = (versions.HERE.parent / ".ci" / "run").read_text()
    for release in (OLDEST, NEWEST):
        assert ".".join(map(str, release)) + "." in text


def test_launches_are_merged_into_their_release(versions):
    results = {"3.6.0": {"add": {"sm_90a": "right"}}, "3.9.0": {"add": {"sm_90a": "right"}}}
    versions.merge(results, {"3.6.0": {"add": {"cuda": "right"}}})
    assert [versions.cell(rows["add"]) for rows in results.values()] == ["GPU, launched", "GPU"]
