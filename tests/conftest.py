"""What every test shares: the budget of hypothesis, where GPU tests can run, the benchmarks."""

import ctypes
import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile("ci")


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def pytest_addoption(parser):
    """`--bless` makes golden files say what the code does now."""
    parser.addoption("--bless", action="store_true", help="rewrite the expectations of files")


def pytest_collection_modifyitems(items):
    """GPU tests are skipped where no driver can be loaded."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _driver():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA driver on this machine"))


def _driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def benchmarks():
    """What imports a module of `benchmarks/` by its name."""
    sys.path.append(str(BENCHMARKS))
    yield importlib.import_module
    sys.path.remove(str(BENCHMARKS))
