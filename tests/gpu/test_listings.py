"""Every listing of the seeds in a frontend's language gives what numpy does on the GPU."""

from __future__ import annotations

import pytest

from tests.frontends.listings.model import Listing
from tests.frontends.listings.table import LISTINGS, cell, expected_text

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.key)
def test_listing(listing: Listing) -> None:
    assert cell(listing, "gpu") == expected_text(listing, "gpu")
