"""The space of the paper's auto-tuner (Tillet, Kung and Cox, MAPL 2019, section 5.3).

Hierarchical tiling has three meta-parameters per dimension of a tile: the tile is cut into
micro-tiles, which the lanes of a warp share, and those into nano-tiles, which one thread owns. The
paper searches powers of two: 32 to 128, 8 to 32, 1 to 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileir.backend.measurement.points import Choice
from tileir.backend.tuning.space import ParameterRole, Space, TuningParameter

TILE = (32, 64, 128)
MICRO = (8, 16, 32)
NANO = (1, 2, 4)


def mapl19(tiles: Sequence[str], extents: Sequence[str] = ()) -> Space:
    """Return the search space of MAPL 2019 for the dimensions of one tile, the slowest first.

    `tiles` are the parameters for the extents of the tile. `extents` are the extents of reduced
    dimensions, which are not divided. The parameters `micro.TM` and `nano.TM` divide the dimension
    of parameter `TM`.
    """
    parameters: list[TuningParameter] = []
    for name in tiles:
        parameters += [
            TuningParameter(name, TILE, ParameterRole.MAKE, "extent of a tile"),
            TuningParameter(
                f"micro.{name}",
                MICRO,
                ParameterRole.ATTRIBUTE,
                "adjacent elements of a warp",
            ),
            TuningParameter(
                f"nano.{name}",
                NANO,
                ParameterRole.ATTRIBUTE,
                "adjacent elements of a thread",
            ),
        ]
    parameters += [
        TuningParameter(name, TILE, ParameterRole.MAKE, "extent of a tile") for name in extents
    ]
    return Space(tuple(parameters))


def attributes_of(choices: dict[str, Choice]) -> dict[str, tuple[Choice, ...]]:
    """Choices `micro.TM`, `micro.TN`, ... as the attributes `micro` and `nano` of a kernel, one
    number per dimension; others by their own name, alone in a tuple."""
    attributes: dict[str, tuple[Choice, ...]] = {}
    for name, value in choices.items():
        kind = name.partition(".")[0]
        attributes[kind] = (*attributes.get(kind, ()), value)
    return attributes
