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
        key=lambda listing: listing.source,
    )
)
"""By source, and by language within one."""

Results: TypeAlias = dict[str, dict[str, str]]
"""What a cell says, by listing and executor."""

ROOT = Path(__file__).resolve().parents[3]
FILE = Path(__file__).parent / "results.json"
PAGE = ROOT / "docs" / "reference" / "frontends" / "listings.md"

SOURCES = {
    "Tillet 2019": "Tillet, Kung, Cox: Triton: an intermediate language and compiler for tiled "
    "neural network computations (MAPL 2019)",
    "OpenAI 2021": "OpenAI: Introducing Triton: open-source GPU programming for neural networks "
    "(2021)",
    "PTX 2023": "A blog post of 2023 on the PTX that Triton generates (kernels `kernel_2304*`)",
    "Pham 2025": "Pham: Decoupled Triton: a block-level decoupled language for writing and "
    "exploring efficient machine-learning kernels (MSc thesis, University of Alberta, 2025)",
    "Lamont": "Lamont, Loh, Sivakumar, Seyoum: An analysis of Triton vs CUDA",
}

HEAD = """# Listings

Several languages are defined by papers, a thesis and blog posts. A test runs every listing of
these documents and compares its results with numpy. A cell has the number of sizes for which they
are equal within the tolerance of the listing, odd sizes included. A listing without masks is also
run with a size that it does not allow. It must raise an error: then the cell has the error code
too, and the last column has the line of the listing that raises it.

```sh
python -m tests.frontends.listings                        # interpreter, SIMT, CPU; writes this page
python -m tests.frontends.listings --on gpu --out FILE.json   # on a machine with a GPU
python -m tests.frontends.listings add FILE.json              # merges those results
```

The column SIMT is the SIMT simulator. The GPU does not run sizes that a listing does not allow,
because an out-of-bounds access is undefined there. A dash marks a cell that has not been run.
"""

TAIL = """
Not included: the first line of Listing 2 of Tillet et al. (TensorFlow is not a kernel language)
and their Listing 3 (the grammar); Listing 3.7 of Pham, whose kernels have no bodies; code in
CUDA, Numba or TorchScript. Comments in `tests/frontends` say where a printed listing had an error
that had to be corrected.
"""


def cell(listing: Listing, on: str) -> str:
    """Run a listing on an executor, and what its cell says. Raises AssertionError and
    TileirError."""
    count, error = listing.run(on)
    return f"{count}; {error}" if error else str(count)


def time_cell(task: tuple[int, str]) -> tuple[str, float]:
    """What the cell of a listing, by number, on an executor says, and how many seconds it took."""
    number, on = task
    start = time.monotonic()
    try:
        text = cell(LISTINGS[number], on)
    except Exception as error:  # a defect may raise anything, and the others go on
        notes = "; ".join(getattr(error, "__notes__", []))
        text = f"failed: {notes}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return text, time.monotonic() - start


def expected_text(listing: Listing, on: str) -> str:
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
    for source, title in SOURCES.items():
        parts += [f"\n## {title}\n\n", *_rows(source, results)]
    return "".join((*parts, TAIL))


def _rows(source: str, results: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    names = ("listing", "computes", "language", *EXECUTORS.values(), "out of bounds at")
    yield f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    for listing in LISTINGS:
        if listing.source == source:
            row = results.get(listing.key, {})
            cells = (row.get(on, "–").replace("|", "\\|") for on in EXECUTORS)
            line = f"`{listing.refused.line}`" if listing.refused else ""
            named = f"{listing.name} | {listing.computes} | {listing.language}"
            yield f"| {named} | {' | '.join(cells)} | {line} |\n"
