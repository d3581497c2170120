"""All listings, what running them gives, and the page of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from . import of_decoupled, of_tensors, of_thesis, of_triton, of_triton_c
from .model import EXECUTORS, UNGUARDED, Listing

LISTINGS: tuple[Listing, ...] = tuple(
    sorted(
        (
            *of_triton_c.LISTINGS,
            *of_tensors.LISTINGS,
            *of_triton.LISTINGS,
            *of_thesis.LISTINGS,
            *of_decoupled.LISTINGS,
        ),
        key=lambda listing: listing.seed,
    )
)
"""By seed, and by language within one."""

Results: TypeAlias = dict[str, dict[str, str]]
"""What a cell says, by listing and executor."""

ROOT = Path(__file__).resolve().parents[3]
FILE = Path(__file__).parent / "results.json"
PAGE = ROOT / "docs" / "reference" / "frontends" / "listings.md"

SEEDS = {
    "000": "Tillet, Kung and Cox: Triton: an intermediate language and compiler for tiled neural "
    "network computations (MAPL 2019)",
    "001": "Tillet: Introducing Triton (2021)",
    "002": "What Triton turns kernels into (2023)",
    "003": "Pham: Decoupled Triton (thesis, University of Alberta, 2025)",
    "004": "2D convolution, Triton and CUDA compared",
}

HEAD = """# Listings

This page runs every listing of the documents that define the languages, and compares the results
with numpy. A number is the number of sizes, odd ones included, for which the result agrees. If a
listing has no masks and therefore does not allow a size, the cell has the error code, and the
last column the line.

```sh
python -m tests.frontends.listings                        # interpreter, SIMT, CPU; writes this page
python -m tests.frontends.listings --on gpu --out FILE.json   # on a machine with a GPU
python -m tests.frontends.listings add FILE.json              # merges those results
```

The column *threads* is the SIMT simulator. The GPU does not run sizes that a listing does not
allow, since an out-of-bounds access is undefined there. A dash is a cell that has not been run.
"""

TAIL = """
Not included: the first line of Listing 2 of the MAPL paper, because TensorFlow is no language for
kernels, and its Listing 3, a grammar; Listing 3.7 of the thesis, whose kernels have no bodies;
code in CUDA, Numba or TorchScript for comparison. Repairs of listings are marked in
`tests/frontends`.
"""


def cell(listing: Listing, on: str) -> str:
    """Run a listing on an executor, and what its cell says. Raises AssertionError and
    TileirError."""
    count, error = listing.run(on)
    return f"{count}; {error}" if error else str(count)


def timed(task: tuple[int, str]) -> tuple[str, float]:
    """What the cell of a listing, by number, on an executor says, and how many seconds it took."""
    number, on = task
    start = time.monotonic()
    try:
        text = cell(LISTINGS[number], on)
    except Exception as error:  # a defect may raise anything, and the others go on
        notes = "; ".join(getattr(error, "__notes__", []))
        text = f"failed: {notes}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return text, time.monotonic() - start


def expected(listing: Listing, on: str) -> str:
    """What a cell has to say."""
    count = str(len(listing.sizes))
    if listing.refused is None or on in UNGUARDED:
        return count
    return f"{count}; {listing.refused.code}"


def read(path: Path = FILE) -> Results:
    """Results, none where there is no file."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(results: Results, path: Path = FILE) -> None:
    """Keep results, in the order of the listings."""
    kept = {key: results[key] for key in (x.key for x in LISTINGS) if key in results}
    ordered = {key: {on: row[on] for on in EXECUTORS if on in row} for key, row in kept.items()}
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def page(results: Results) -> str:
    """The page of the results."""
    parts = [HEAD]
    for seed, title in SEEDS.items():
        parts += [f"\n## {title}\n\n", *_rows(seed, results)]
    return "".join((*parts, TAIL))


def _rows(seed: str, results: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    names = ("listing", "what", "language", *EXECUTORS.values(), "refused at")
    yield f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    for listing in LISTINGS:
        if listing.seed == seed:
            row = results.get(listing.key, {})
            cells = (row.get(on, "–").replace("|", "\\|") for on in EXECUTORS)
            line = f"`{listing.refused.line}`" if listing.refused else ""
            named = f"{listing.name} | {listing.what} | {listing.language}"
            yield f"| {named} | {' | '.join(cells)} | {line} |\n"
