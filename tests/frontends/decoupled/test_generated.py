"""Programs by hypothesis agree with numpy; malformed ones end in errors of ours."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tileir import TileirError
from tileir.frontends.decoupled import parse

from ..budget import PART, SEEDS, over
from . import definitions as d, generated


@pytest.mark.slow
@over(generated.definitions(), st.integers(0, 1 << 30))
def test_schedules_do_not_change_what_is_computed(actual: generated.Definition, seed: int) -> None:
    function = parse(actual.source).function()
    rng = np.random.default_rng(seed)
    arrays = {
        name: _array(rng, [actual.sizes[n] for n in actual.inputs[name]])
        for name in function.tensors
    }
    scalars = dict.fromkeys(function.scalars, 0.75)
    sizes = {n: actual.sizes[n] for n in function.labels}
    expected = function.reference(**arrays, **scalars, **sizes)
    result = function(**arrays, **scalars, **sizes)
    scale = 1 + np.abs(expected[np.isfinite(expected)]).max(initial=0)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * scale)


def _array(rng: Any, shape: list[int]) -> Any:
    """Eighths, so that comparisons, floors and remainders come out alike in f32 and f64."""
    return (rng.integers(-8, 9, shape) / 8).astype(np.float32)


SOURCES = [text for name, text in vars(d).items() if name.isupper() and "Func" in text]
FRAGMENTS = [
    *"[](),;:.=+-*/%<017xyklmnA#$é \n", "rsum", "rdot", "exp", "reshape", "len", "Func", "In",
    "Var", "RVar", "SIn", "block", "tensorize", "map", "fuse_at", "online", "atomic", "compile",
    "reverse", "math", "approx", "evict_first", "evict_last", "persistent", "roles", "off",
    "num_warps", "1e400", "99999999999", "a.b", "where", "pow", "0.5", "",
]  # fmt: skip


def mutate_tokens(rng: random.Random) -> str:
    """A definition with some of its tokens changed."""
    source = rng.choice(SOURCES)
    tokens = _tokens(source)
    for _ in range(rng.randint(1, 4)):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        change = rng.randrange(4)
        if change == 0:
            tokens[i] = rng.choice(FRAGMENTS)
        elif change == 1:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif change == 2:
            tokens.insert(i, rng.choice([*FRAGMENTS, *tokens]))
        else:
            del tokens[i : i + rng.randint(1, 3)]
            tokens = tokens or [";"]
    return "".join(tokens)


def _tokens(source: str) -> list[str]:
    return re.findall(r"\w+|\s+|.", source)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_malformed_sources_end_in_errors_with_a_place(seed: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for _ in range(PART):
        source = mutate_tokens(rng)
        try:
            program = parse(source, "bad.dt")
            for name in program.compiled_funcs:
                function = program.function(name)
                small = dict.fromkeys(function.labels, 3)
                arguments = function.arguments(small, lambda shape: np.ones(shape, np.float32))
                _ = function.plan(*arguments)
        except TileirError as error:
            refused += 1
            if error.code != "TIR1205":
                assert error.location and error.location.file == "bad.dt", source
    assert refused > PART // 2
