"""What every test shares: the budget of hypothesis, where GPU tests can run, the benchmarks."""

import contextlib
import ctypes
import functools
import gc
import importlib
import os
import sys
import zlib
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile("ci")


ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


def pytest_addoption(parser):
    """`--bless` makes golden files say what the code does now."""
    parser.addoption("--bless", action="store_true", help="rewrite the expectations of files")


def pytest_configure():
    """Keep bytecode in `build/` where Python is to write none (containers often say so): some tests
    start processes of their own, each of which would compile the library again. Collect garbage
    less often than Python does by default: 7 % of the time of a run."""
    gc.set_threshold(50_000, 10, 10)
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / "build" / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


def pytest_sessionstart(session):
    """Every second worker imports the modules of tests from the last one to the first, and the
    others as they are collected, from the first to the last. In a new checkout, where bytecode has
    to be made, each then makes half of it and reads the other half."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    config = session.config
    if config.args_source is config.ArgsSource.TESTPATHS and int(worker.removeprefix("gw")) % 2:
        for path in sorted((ROOT / "tests").rglob("test_*.py"), reverse=True):
            with contextlib.suppress(Exception, pytest.skip.Exception):  # collection reports it
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Of sampled tests the cases not drawn are slow. Where no driver can be loaded, the first case
    of each GPU test is skipped with the reason, and the other cases are deselected."""
    for item in _not_drawn(items):
        item.add_marker(pytest.mark.slow)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _driver():
        cases = defaultdict(list)
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA driver on this machine"))
            cases[item.nodeid.split("[")[0], item.get_closest_marker("slow") is None].append(item)
        others = {item for family in cases.values() for item in family[1:]}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


def pytest_collection_finish():
    """Keep the garbage collector from going through the collected tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Generators of random numbers that a module has start again for each test: what a test draws
    depends on no other test, which another worker may run."""
    for generator, state in _generators(getattr(item, "module", None)):
        generator.bit_generator.state = state


@functools.cache
def _generators(module):
    """The generators of numpy in a module, with their states before its first test."""
    numpy = sys.modules.get("numpy")
    values = vars(module).values() if module and numpy else ()
    kind = numpy.random.Generator if values else ()
    return [(value, value.bit_generator.state) for value in values if isinstance(value, kind)]


def _not_drawn(items):
    """The cases of tests marked `sampled(count, by)` but for `count` of each value of the parameter
    `by`. Cases are drawn by their own names, so that others may come and go, among those that are
    not slow by themselves."""
    families = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark and not item.get_closest_marker("slow"):
            by = mark.kwargs.get("by")
            value = repr(item.callspec.params[by]) if by else None
            families[item.nodeid.split("[")[0], value, mark.args[0]].append(item)
    for (_, _, count), cases in families.items():
        yield from sorted(cases, key=lambda case: zlib.crc32(case.name.encode()))[count:]


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
