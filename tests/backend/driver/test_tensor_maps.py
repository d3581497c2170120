"""What the driver is handed for a tensor map, by a made-up one that remembers."""

import ctypes
from types import SimpleNamespace

import pytest

from tileir.backend.driver.tensor_maps import encode_tensor_map
from tileir.backend.tma.host_plan import MapRecipe, MapValues


class Words:
    """An enumeration whose words stand for themselves."""

    def __getattr__(self, name: str) -> str:
        return name


@pytest.mark.parametrize(
    ("block", "extents", "strides", "handed"),
    [((16,), (40,), (), 1), ((8, 16), (40, 56), (64,), 1), ((2, 8, 16), (9, 40, 56), (640, 64), 2)],
)
def test_strides_are_never_an_empty_array(block, extents, strides, handed):
    """Those of one dimension are not read, but have to be there."""
    seen = []
    content = ctypes.create_string_buffer(128)

    def encode(*args):
        seen.append(args)
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(content))

    kinds = (
        "CUtensorMapDataType", "CUtensorMapInterleave", "CUtensorMapSwizzle",
        "CUtensorMapL2promotion", "CUtensorMapFloatOOBfill",
    )  # fmt: skip
    api = SimpleNamespace(
        cuTensorMapEncodeTiled=encode, cuuint64_t=int, cuuint32_t=int, **{k: Words() for k in kinds}
    )
    driver = SimpleNamespace(cuda=api, check=lambda result, what: result[1])
    encode_tensor_map(
        driver,
        MapValues(MapRecipe("i8", 1, block, 0, "zero", 0, (), (), 0), 1 << 40, extents, strides),
    )
    _, rank, _, sizes, distances, *_ = seen[0]
    assert rank == len(block) and sizes == [*reversed(extents)]
    assert len(distances) == handed and distances[: len(strides)] == [*reversed(strides)]
