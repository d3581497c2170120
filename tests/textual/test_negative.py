"""Negative tests, counted: every code that reading, verifying and building ops can raise has one,
and at least 300 check the code, the line and the column of a diagnostic in a text.

What is counted are distinct marked texts: of the reader (`malformed_texts.py`), of the older
spelling (`test_mapl19.py`), of the verifier (`tests/verify/test_text.py`, `test_predicates.py`) and
of ops (`tests/ops/test_negative_text.py`). Rules that no text can break are broken by modules built
by hand (`tests/verify/test_modules.py`, `tests/ops/test_negative.py`), whose ops stand at a place
that the diagnostic must name; these are not counted.
"""

from __future__ import annotations

import re
from pathlib import Path

import tileir
import tileir.textual
from tests.ops.test_negative import CASES as BUILT_OPS
from tests.ops.test_negative_text import TEXTS, Spelling
from tests.verify.test_modules import STRUCTURES
from tests.verify.test_predicates import WARNED
from tests.verify.test_text import CASES as VERIFIED

from .malformed_texts import LINES, MODULES, OLDER, PHIS
from .test_mapl19 import WRONG_LINES, WRONG_MODULES

READ = [*MODULES, *LINES, *PHIS, *OLDER, *WRONG_LINES, *WRONG_MODULES]
OPS = [(s.expected, s.text()) for s in map(Spelling, TEXTS)]
BY_HAND = {
    *(code for code, _ in STRUCTURES),
    *(case[3] for case in BUILT_OPS),
    "TIR0024",  # test_round_trip.py: a remark
    # test_modules.py, each in a test of its own
    "TIR0214", "TIR0225", "TIR0307", "TIR0308", "TIR0310", "TIR0401",
}  # fmt: skip


def raised_codes() -> set[str]:
    """The codes named by what reads, verifies and defines ops."""
    core = Path(tileir.__file__).parent
    folders = [
        Path(tileir.textual.__file__).parent,
        core / "verify",
        core / "ops",
    ]
    files = [p for folder in folders for p in folder.glob("*.py")]
    files += [core / name for name in ("op.py", "signature.py", "layout_text.py")]
    return {code for p in files for code in re.findall(r"TIR\d{4}", p.read_text())}


def test_every_code_has_a_negative_test() -> None:
    tested = BY_HAND | {code for code, _ in [*READ, *VERIFIED, *WARNED, *OPS]}
    assert raised_codes() - tested == set()
    assert len(raised_codes()) >= 75


def test_they_are_many_and_differ() -> None:
    texts = {text for _, text in [*READ, *VERIFIED, *WARNED, *OPS]}
    assert len(texts) >= 700
    assert all("§" in text or "«" in text for text in texts)
