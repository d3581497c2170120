"""What compute-sanitizer's racecheck says of the kernels of cases, from the output of a process."""

import sys

import pytest

OUTPUT = """\
========= COMPUTE-SANITIZER
=== case a/first begins
========= Error: Race reported between Write access at at::native::copy(int)+0x80
=========     and Read access at at::native::copy(int)+0x40 [4 hazards]
=== case ends {"case": "a/first", "kernels": ["scan"], "reason": ""}
=== case a/second begins
========= Error: Race reported between Write access at scan+0x1180
=========     and Read access at scan+0xf20 [49832 hazards]
=========
========= Warning: Race reported between Read access at scan+0x90 in k.py:4
=========     and Write access at scan+0xa0 [2 hazards]
=== case ends {"case": "a/second", "kernels": ["scan", "sum"], "reason": ""}
=== case a/third begins
========= Error: Race reported between Read access at lost+0x10
=== case a/fourth begins
=== case ends {"case": "a/fourth", "kernels": [], "reason": "ValueError: no"}
"""


@pytest.fixture
def races(benchmarks, monkeypatch):
    monkeypatch.syspath_prepend(str(benchmarks("triton_suite").HERE / "public"))
    yield __import__("races")
    del sys.modules["races"]


def test_hazards_belong_to_the_kernels_of_their_case(races):
    result = races.summary(list(races.cases_of(OUTPUT)))
    assert result["hazards"] == {
        "a/second": {"scan": ["Write at 0x1180", "Read at 0x90"]},
        "a/third": {"lost": ["Read at 0x10"]},
    }
    assert result["cases"] == ["a/first", "a/second"] and result["kernels"] == ["scan", "sum"]


def test_a_case_that_does_not_end_has_a_reason(races):
    result = races.summary(list(races.cases_of(OUTPUT)))
    assert result["failed"] == {"a/third": "did not end", "a/fourth": "ValueError: no"}


def test_hazards_are_printed_at_their_case(races):
    printed = races.text(races.summary(list(races.cases_of(OUTPUT))))
    assert printed.splitlines()[0] == "2 cases, 2 kernels, 2 cases failed, 2 cases with hazards"
    assert "a/second: scan: Write at 0x1180, Read at 0x90" in printed
