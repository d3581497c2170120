"""Random numbers: Philox 4x32 (Salmon et al., SC 2011), as Triton draws them."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.language.arithmetic import FUNCTIONS, maximum, umulhi
from tileir.frontends.triton.language.builtin import Scope, builtin, static
from tileir.frontends.triton.tensor import Tensor

_KEYS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = (0xD2511F53, 0xCD9E8D57)


@builtin
def philox(s: Scope, seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = 10) -> Any:
    """Four words from a seed of 64 bits and four counters; uint32."""
    b = s.b
    key = semantic.cast(tensor.of(b, seed), dtypes.uint64)
    low = semantic.cast(semantic.bitwise("and_")(b, key, 0xFFFFFFFF), dtypes.uint32)
    high = semantic.cast(semantic.shift("right")(b, key, 32), dtypes.uint32)
    words = [semantic.cast(tensor.of(b, c), dtypes.uint32) for c in (c0, c1, c2, c3)]
    xor = semantic.bitwise("xor")
    for _ in range(static(n_rounds, "n_rounds")):
        w0, w1, w2, w3 = words
        words = [
            xor(b, xor(b, umulhi.apply(s, w2, _word(s, _ROUNDS[1])), w1), low),
            semantic.mul(b, w2, _word(s, _ROUNDS[1])),
            xor(b, xor(b, umulhi.apply(s, w0, _word(s, _ROUNDS[0])), w3), high),
            semantic.mul(b, w0, _word(s, _ROUNDS[0])),
        ]
        low = semantic.add(b, low, _word(s, _KEYS[0]))
        high = semantic.add(b, high, _word(s, _KEYS[1]))
    return tuple(words)


def _word(s: Scope, number: int) -> Tensor:
    return tensor.literal(s.b, number, dtypes.uint32)


@builtin
def randint4x(s: Scope, seed: Any, offset: Any, n_rounds: Any = 10) -> Any:
    """Four uint32 per element of `offset`."""
    place = tensor.of(s.b, offset)
    zero = tensor.literal(s.b, 0, dtypes.uint32, place.shape)
    return philox.apply(s, seed, place, zero, zero, zero, n_rounds)


@builtin
def randint(s: Scope, seed: Any, offset: Any, n_rounds: Any = 10) -> Tensor:
    """One uint32 per element of `offset`."""
    return randint4x.apply(s, seed, offset, n_rounds)[0]


def _uniform(s: Scope, word: Tensor) -> Tensor:
    """A word as a float32 in [0, 1): negative ones count from the other end."""
    b = s.b
    signed = Tensor(word.expr, dtypes.int32)
    negative = semantic.compare("lt")(b, signed, 0)
    folded = semantic.where(b, negative, semantic.invert(b, signed), signed)
    return semantic.mul(b, semantic.cast(folded, dtypes.float32), 4.6566127342e-10)


@builtin
def rand4x(s: Scope, seed: Any, offsets: Any, n_rounds: Any = 10) -> Any:
    """Four float32, uniform in [0, 1), per element of `offsets`."""
    return tuple(_uniform(s, w) for w in randint4x.apply(s, seed, offsets, n_rounds))


@builtin
def rand(s: Scope, seed: Any, offset: Any, n_rounds: Any = 10) -> Tensor:
    """A float32, uniform in [0, 1), per element of `offset`."""
    return _uniform(s, randint.apply(s, seed, offset, n_rounds))


def _normal(s: Scope, u1: Tensor, u2: Tensor) -> tuple[Tensor, Tensor]:
    """Two normal numbers of two uniform ones (Box and Muller)."""
    b = s.b
    positive = maximum.apply(s, u1, 1.0e-7)
    angle = semantic.mul(b, u2, 6.283185307179586)
    radius = FUNCTIONS["sqrt"].apply(s, semantic.mul(b, FUNCTIONS["log"].apply(s, positive), -2.0))
    cosine, sine = FUNCTIONS["cos"].apply(s, angle), FUNCTIONS["sin"].apply(s, angle)
    return semantic.mul(b, radius, cosine), semantic.mul(b, radius, sine)


@builtin
def randn4x(s: Scope, seed: Any, offset: Any, n_rounds: Any = 10) -> Any:
    """Four normal float32 per element of `offset`."""
    u = rand4x.apply(s, seed, offset, n_rounds)
    return (*_normal(s, u[0], u[1]), *_normal(s, u[2], u[3]))


@builtin
def randn(s: Scope, seed: Any, offset: Any, n_rounds: Any = 10) -> Tensor:
    """A normal float32 per element of `offset`."""
    words = randint4x.apply(s, seed, offset, n_rounds)
    return _normal(s, _uniform(s, words[0]), _uniform(s, words[1]))[0]
