"""Every listing of a source in a frontend's language gives what numpy does, or its located error,
without a GPU (`tests/gpu/test_listings.py` runs them on one), and the page says so."""

from __future__ import annotations

import pytest

from .model import EXECUTORS, Listing
from .table import LISTINGS, PAGE, cell, expected_text, page, read

HERE = [on for on in EXECUTORS if on != "gpu"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", HERE)
@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.key)
def test_listing(listing: Listing, on: str) -> None:
    assert cell(listing, on) == expected_text(listing, on)


def test_every_listing_has_a_name_of_its_own() -> None:
    assert len({listing.key for listing in LISTINGS}) == len(LISTINGS)


def test_the_page_is_that_of_the_results() -> None:
    results = read()
    assert PAGE.read_text() == page(results), "run: python -m tests.frontends.listings"
    assert set(results) == {listing.key for listing in LISTINGS}
    for listing in LISTINGS:
        row = results[listing.key]
        assert set(row) >= set(HERE)
        for on, text in row.items():
            assert text == expected_text(listing, on), f"{listing.key} on {on}"
