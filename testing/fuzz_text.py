"""Tests with malformed text: for any input, a reader returns a module or raises a `TileirError`.

    python -m tileir.testing.campaign text --programs 200000 --seconds 600

Texts are mutants of well-formed modules (tokens deleted, repeated, swapped and replaced, lines
moved, numbers and names blown up, bytes changed, ends cut off) and random tokens.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import attrs

from tileir.errors import TileirError
from tileir.textual import parse, print_module

_TOKEN = re.compile(r"%[\w.]+|@[\w.]+|\w+|\n|[^\w\s]|[ \t]+")
_WORDS = (
    "%0", "%x", "@f", "i32", "f32<8>", "f32*", "i1", "add", "load", "phi", "psi", "ret", "br",
    "define", "declare", "kernel", "void", "entry:", "{", "}", "(", ")", "[", "]", "<", ">", "=",
    ",", ":", ";", "@", "*", "#l0", "undef", "true", "nan", "-inf", "0x", "0xffffffffffffffffff",
    "-1", "1e999", "99999999999999999999", "1.5", '"', '"a\\', "loc(", "addrspace(", "\n", "\t",
    "\r", "\0", "\u2028", "\ud7ff", "é", "tir 1.0", "metadata {", "none", "_", "stage",
)  # fmt: skip


@attrs.frozen
class Escape:
    """A text on which a reader failed in another way, and the failure."""

    text: str
    reason: str


def mutant(rng: random.Random, seeds: Sequence[str]) -> str:
    """One text that is usually malformed."""
    if rng.random() < 0.1:
        return "tir 1.0\n" + " ".join(rng.choice(_WORDS) for _ in range(rng.randrange(60)))
    text = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        text = rng.choice(_MUTATIONS)(rng, text)
    return text


def try_text(text: str, limit: float | None = 1.0) -> Escape | None:
    """The failure of the reader on `text`, None if there is none: an exception other than
    TileirError, an error without a message, or a time of more than `limit` seconds per MiB, but at
    least one second."""
    reason = read(text, limit).reason
    return Escape(text, reason) if reason is not None else None


@attrs.frozen
class Reading:
    """The result of reading a text. `reason` is the failure, as in `try_text`."""

    refused: bool
    reason: str | None = None


def read(text: str, limit: float | None = 1.0) -> Reading:
    """Read `text`."""
    start, refused = time.process_time(), False
    try:
        parse(text)
    except TileirError as error:
        refused = True
        if not str(error) or not error.diagnostics:
            return Reading(True, "an error without a message")
    except (Exception, RecursionError) as error:
        return Reading(True, f"{type(error).__name__}: {error}")
    if limit is None:
        return Reading(refused)
    seconds = time.process_time() - start
    allowed = limit * max(1.0, len(text) / (1 << 20))
    slow = f"{seconds:.1f} s for {len(text)} characters" if seconds > allowed else None
    return Reading(refused, slow)


@cache
def well_formed(folder: str = "tests") -> tuple[str, ...]:
    """The texts that are mutated: the modules below `folder`, ordered by path, and generated
    ones."""
    from tileir.testing.program_decoder import sample

    files = [path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.tir"))]
    result = [print_module(sample(seed, 8).module) for seed in range(50)]
    return tuple(text for text in (*files, *result) if not read(text, None).refused)


def campaign(
    seeds: Sequence[str], count: int, seed: int = 0, limit: float | None = 1.0
) -> list[Escape]:
    """Try `count` texts made from `seeds`. Returns the failures, as in `try_text`."""
    rng = random.Random(seed)
    tried = (try_text(mutant(rng, seeds), limit) for _ in range(count))
    return [escape for escape in tried if escape is not None]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text) or [text]


def _token_change(change: Callable[[random.Random, list[str], int], None]) -> Callable[..., str]:
    def mutate(rng: random.Random, text: str) -> str:
        tokens = _tokens(text)
        change(rng, tokens, rng.randrange(len(tokens)))
        return "".join(tokens)

    return mutate


def _delete(rng: random.Random, tokens: list[str], at: int) -> None:
    del tokens[at : at + rng.choice((1, 1, 2, 5))]


def _repeat(rng: random.Random, tokens: list[str], at: int) -> None:
    tokens[at:at] = [tokens[at]] * rng.choice((1, 2, 300))


def _swap(rng: random.Random, tokens: list[str], at: int) -> None:
    other = rng.randrange(len(tokens))
    tokens[at], tokens[other] = tokens[other], tokens[at]


def _replace(rng: random.Random, tokens: list[str], at: int) -> None:
    tokens[at] = rng.choice(_WORDS)


def _blow_up(rng: random.Random, tokens: list[str], at: int) -> None:
    tokens[at] = tokens[at] * rng.choice((10, 1000)) + str(10 ** rng.choice((3, 12, 60)))


def _truncate(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _bytes(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return (
        text[:at] + chr(rng.choice((0, 7, 9, 34, 37, 64, 123, 125, 233, 0x2028))) + text[at + 1 :]
    )


def _move_line(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    line = lines.pop(rng.randrange(len(lines)))
    lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


_MUTATIONS: tuple[Callable[[random.Random, str], str], ...] = (
    *(_token_change(c) for c in (_delete, _repeat, _swap, _replace, _blow_up)),
    _truncate,
    _bytes,
    _move_line,
)
