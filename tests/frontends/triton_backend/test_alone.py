"""Single modules of packages that cannot be run as a whole, for the cases of public kernels."""

import sys

import pytest

PACKAGE = {
    "__init__.py": "import a_server_that_is_nowhere",
    "layers/__init__.py": "import another_that_is_nowhere",
    "layers/kernels.py": (
        "from an_engine_that_is_nowhere import start, Engine\n"
        "from pkg_for_alone.parallel import is_parallel\n"
        "from pkg_for_alone.sizes import SIZE\n"
        "parallel = is_parallel()\n"
        "def takes(engine: Engine | None): return SIZE\n"
    ),
    "parallel.py": "raise RuntimeError('no processes')",
    "sizes.py": "SIZE = 3",
}


@pytest.fixture
def alone(benchmarks, monkeypatch, tmp_path):
    """The function, and a package on the path of imports."""
    for name, text in PACKAGE.items():
        file = tmp_path / "pkg_for_alone" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(benchmarks("triton_suite").HERE / "public"))
    before = set(sys.modules)
    yield __import__("alone").alone
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_module_is_imported_without_what_it_does_not_need(alone):
    module = alone(
        "pkg_for_alone.layers.kernels", ("pkg_for_alone.layers",),
        ("an_engine_that_is_nowhere", "pkg_for_alone.parallel"),
    )  # fmt: skip
    assert module.parallel is False
    assert module.takes(None) == 3
    assert not module.start
    assert not module.start.of("the engine").name


def test_what_is_not_named_is_imported(alone):
    with pytest.raises(ModuleNotFoundError, match="another_that_is_nowhere"):
        alone("pkg_for_alone.layers.kernels")


def test_a_package_that_is_missing_is_an_import_error(alone):
    with pytest.raises(ImportError, match="a_package_that_is_nowhere is not installed"):
        alone("a_package_that_is_nowhere.kernels")
