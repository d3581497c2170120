"""Sources with mistakes, made of right ones, and what may come of them."""

import random
import re

from tileir import TileirError

TOKENS = re.compile(r"\s+|[A-Za-z_]\w*|\d+\.?\d*|[-+*/<>=!&|]=?!?|.", re.S)
NOISE = [
    "(", ")", "[", "]", "{", "}", ",", ";", ":", "+", "*", ">", "<", "=", "==", "?", "!", "-", "/",
    "%", "0", "1", "7", "99999999999", "1.5", "x", "i", "A", "where", "in", "function", "def", "$",
    "\x00", "é", "\n", "//", "/*", "-1", "float", "exp", "(((((", "exists",
]  # fmt: skip


def mistaken(sources, count, seed):
    """`count` sources, each of `sources` with one to four changes."""
    rng = random.Random(seed)
    for _ in range(count):
        tokens = TOKENS.findall(rng.choice(sources))
        for _ in range(rng.randint(1, 4)):
            if not tokens:
                break
            place = rng.randrange(len(tokens))
            other = rng.randrange(len(tokens))
            match rng.randrange(6):
                case 0:
                    del tokens[place]
                case 1:
                    tokens.insert(place, rng.choice(NOISE))
                case 2:
                    tokens[place] = rng.choice(NOISE)
                case 3:
                    tokens[place], tokens[other] = tokens[other], tokens[place]
                case 4:
                    tokens[place] = tokens[other]
                case 5:
                    tokens = tokens[:place] if rng.random() < 0.2 else tokens
        yield "".join(tokens)


def is_refused(call, source):
    """Whether `call(source)` refuses, in the way that it may: with a code, a message, a place."""
    try:
        call(source)
    except TileirError as error:
        diagnostic = error.diagnostics[0]
        assert diagnostic.code.startswith("TIR") and diagnostic.message, source
        assert diagnostic.location is not None, source
        lines = source.split("\n")
        assert 1 <= diagnostic.location.line <= len(lines), source
        return True
    return False
