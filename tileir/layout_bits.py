"""Linear algebra over GF(2): vectors are integers, bit `i` the `i`-th coordinate.

A matrix is the sequence of its columns. All functions are exact and take time cubic in the number
of bits, which is at most a few dozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def apply(columns: Sequence[int], vector: int) -> int:
    """The product of a matrix and a vector."""
    result = 0
    for i, column in enumerate(columns):
        if vector >> i & 1:
            result ^= column
    return result


def multiply(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The product of two matrices: first `b`, then `a`."""
    return tuple(apply(a, column) for column in b)


class Subspace:
    """A subspace that grows. `rows` maps a leading bit to the reduced vector that has it and to
    the combination of added vectors that makes it, a mask by order of addition."""

    def __init__(self, rows: dict[int, tuple[int, int]] | None = None, count: int = 0) -> None:
        self.rows, self.count = {} if rows is None else rows, count

    @staticmethod
    def of(vectors: Iterable[int]) -> Subspace:
        """The subspace that `vectors` span."""
        span = Subspace()
        for vector in vectors:
            span.add(vector)
        return span

    def reduce(self, vector: int) -> tuple[int, int]:
        """The remainder of `vector` modulo the subspace, and the combination that was
        subtracted."""
        used = 0
        while vector:
            row = self.rows.get(vector.bit_length())
            if row is None:
                return self._below(vector, used)
            vector, used = vector ^ row[0], used ^ row[1]
        return 0, used

    def _below(self, vector: int, used: int) -> tuple[int, int]:
        """The same where the leading bit stays: lower bits are reduced too."""
        for bit in sorted(self.rows, reverse=True):
            if vector >> (bit - 1) & 1:
                row = self.rows[bit]
                vector, used = vector ^ row[0], used ^ row[1]
        return vector, used

    def add(self, vector: int) -> bool:
        """Add one vector; whether it was independent of those before."""
        remainder, used = self.reduce(vector)
        mask = 1 << self.count
        self.count += 1
        if remainder:
            self.rows[remainder.bit_length()] = (remainder, used ^ mask)
        return bool(remainder)

    def __contains__(self, vector: int) -> bool:
        return not self.reduce(vector)[0]

    def __len__(self) -> int:
        return len(self.rows)

    def copy(self) -> Subspace:
        """The same subspace, to grow on its own."""
        return Subspace(dict(self.rows), self.count)


def independent(vectors: Iterable[int], beyond: Iterable[int] = ()) -> list[int]:
    """The `vectors` that are linearly independent of `beyond` and of the previous ones."""
    span = Subspace.of(beyond)
    return [v for v in vectors if span.add(v)]


def kernel(columns: Sequence[int]) -> list[int]:
    """A basis of the vectors that the matrix maps to zero."""
    span, result = Subspace(), list[int]()
    for i, column in enumerate(columns):
        remainder, used = span.reduce(column)
        if remainder:
            span.add(column)
        else:
            span.count += 1
            result.append(used | 1 << i)
    return result


def intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of what two subspaces, given by vectors that span them, share."""
    left, right = independent(a), independent(b)
    relations = kernel([*left, *right])
    mask = (1 << len(left)) - 1
    return independent(apply(left, relation & mask) for relation in relations)


def complement(vectors: Iterable[int], bits: int) -> list[int]:
    """Unit vectors that extend `vectors` to a basis of all vectors of `bits` bits."""
    return independent((1 << i for i in range(bits)), vectors)


def common_complement(a: Sequence[int], b: Sequence[int], bits: int) -> list[int]:
    """A basis of a largest subspace that shares only zero with the span of `a` and with that of
    `b`.

    Its dimension is `bits` less that of the larger span: of each span the vectors beyond the
    other are added in pairs, a sum of such a pair being in neither.
    """
    common = intersection(a, b)
    left, right = independent(a, common), independent(b, common)
    pairs = [x ^ y for x, y in zip(left, right, strict=False)]
    return pairs + complement([*common, *left, *right], bits)


def solve(columns: Sequence[int], vector: int) -> int | None:
    """A combination of the columns that makes `vector`; None if there is none."""
    remainder, used = Subspace.of(columns).reduce(vector)
    return None if remainder else used


def inverse(columns: Sequence[int], bits: int) -> tuple[int | None, ...]:
    """For each unit vector of `bits` bits, the combination of columns that yields it: the
    pseudo-inverse that uses the earliest columns.

    None for unit vectors that are not in the image.
    """
    span = Subspace.of(columns)
    result: list[int | None] = []
    for i in range(bits):
        remainder, used = span.reduce(1 << i)
        result.append(None if remainder else used)
    return tuple(result)
