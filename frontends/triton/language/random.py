"""Random numbers: Philox 4x32 (Salmon et al., SC 2011), as Triton draws them."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.language.builtin import CompileScope, builtin, static_integer
from tileir.frontends.triton.tensor import Tensor

_USUAL_ITERATIONS = 10
"""The number of iterations in the definition of the generator."""


@builtin
def philox(
    s: CompileScope, seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = 10
) -> Any:
    """Four words from a seed of 64 bits and four counters; uint32."""
    b = s.b
    key = semantic.cast(tensor.of(b, seed), dtypes.uint64)
    low = semantic.cast(semantic.bitwise("and_")(b, key, 0xFFFFFFFF), dtypes.uint32)
    high = semantic.cast(semantic.shift("right")(b, key, 32), dtypes.uint32)
    counters = [semantic.cast(tensor.of(b, c), dtypes.uint32) for c in (c0, c1, c2, c3)]
    words = semantic.broadcast(*counters, low, high)
    iterations = static_integer(n_rounds, "n_rounds")
    counted = [] if iterations == _USUAL_ITERATIONS else [iterations]
    result = b.library("philox", *(w.expr for w in words), *counted)
    return tuple(Tensor(word, dtypes.uint32) for word in result)


@builtin
def randint4x(s: CompileScope, seed: Any, offset: Any, n_rounds: Any = 10) -> Any:
    """Four uint32 per element of `offset`."""
    place = tensor.of(s.b, offset)
    zero = tensor.literal(s.b, 0, dtypes.uint32, place.shape)
    return philox.apply(s, seed, place, zero, zero, zero, n_rounds)


@builtin
def randint(s: CompileScope, seed: Any, offset: Any, n_rounds: Any = 10) -> Tensor:
    """One uint32 per element of `offset`."""
    return randint4x.apply(s, seed, offset, n_rounds)[0]


@builtin
def uint_to_uniform_float(s: CompileScope, x: Any) -> Tensor:
    """32 random bits as a float32 in [0, 1)."""
    return _uniform(s, semantic.cast(tensor.of(s.b, x), dtypes.uint32))


@builtin
def pair_uniform_to_normal(s: CompileScope, u1: Any, u2: Any) -> tuple[Tensor, Tensor]:
    """Two normal numbers of two uniform ones (Box and Muller, 1958)."""
    return _normal(s, *semantic.broadcast(tensor.of(s.b, u1), tensor.of(s.b, u2)))


def _uniform(s: CompileScope, word: Tensor) -> Tensor:
    """A word as a float32 in [0, 1)."""
    return Tensor(s.b.library("uniform", word.expr), dtypes.float32)


@builtin
def rand4x(s: CompileScope, seed: Any, offsets: Any, n_rounds: Any = 10) -> Any:
    """Four float32, uniform in [0, 1), per element of `offsets`."""
    return tuple(_uniform(s, w) for w in randint4x.apply(s, seed, offsets, n_rounds))


@builtin
def rand(s: CompileScope, seed: Any, offset: Any, n_rounds: Any = 10) -> Tensor:
    """A float32, uniform in [0, 1), per element of `offset`."""
    return _uniform(s, randint.apply(s, seed, offset, n_rounds))


def _normal(s: CompileScope, u1: Tensor, u2: Tensor) -> tuple[Tensor, Tensor]:
    """Two normal numbers of two uniform ones."""
    first, second = s.b.library("normal", u1.expr, u2.expr)
    return Tensor(first, dtypes.float32), Tensor(second, dtypes.float32)


@builtin
def randn4x(s: CompileScope, seed: Any, offset: Any, n_rounds: Any = 10) -> Any:
    """Four normal float32 per element of `offset`."""
    u = rand4x.apply(s, seed, offset, n_rounds)
    return (*_normal(s, u[0], u[1]), *_normal(s, u[2], u[3]))


@builtin
def randn(s: CompileScope, seed: Any, offset: Any, n_rounds: Any = 10) -> Tensor:
    """A normal float32 per element of `offset`."""
    words = randint4x.apply(s, seed, offset, n_rounds)
    return _normal(s, _uniform(s, words[0]), _uniform(s, words[1]))[0]
