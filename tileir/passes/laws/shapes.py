"""Laws of shape ops."""

from __future__ import annotations

from tileir.passes.laws.law import Law

RESHAPES = (
    Law("reshape(x) = x"),
    Law("reshape(reshape(x)) = reshape(x)"),
)
SAME = (
    RESHAPES[0],
    Law("broadcast(x) = x"),
    Law("bitcast(x) = x"),
    Law("splat(unsplat(x)) = x"),
    Law("unsplat(splat(x)) = x"),
    Law("split(join(x, y)) = x, y"),
    Law("join(p: split(x), p#1) = x"),
)
CHAINS = (
    RESHAPES[1],
    Law("reshape(expand_dims(x){axis = *}) = reshape(x)"),
    Law("expand_dims(reshape(x)){axis = *} = reshape(x)"),
    Law("broadcast(broadcast(x)) = broadcast(x)"),
    Law("unsplat(reshape(x)) = unsplat(x)"),
    Law("unsplat(expand_dims(x){axis = *}) = unsplat(x)"),
)
UNIFORM = (
    Law("reshape(splat(x)) = splat(x)"),
    Law("broadcast(splat(x)) = splat(x)"),
    Law("expand_dims(splat(x)){axis = *} = splat(x)"),
    Law("trans(splat(x)){order = *} = splat(x)"),
    Law("join(splat(x), splat(x)) = splat(x)"),
    Law("cat(splat(x), splat(x)){axis = *} = splat(x)"),
)
SHAPES = (*SAME, *CHAINS, *UNIFORM)
"""Every law of shapes that needs no computed attribute."""
