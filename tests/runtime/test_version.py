"""The version of the compiler."""

from pathlib import Path

from tileir.backend.runtime.version import compiler_sources

ROOT = Path(__file__).parents[2]


def test_sources_of_the_compiler_are_read_and_no_others():
    """A checkout has tests, benchmarks and perhaps an environment next to them."""
    paths = [Path(path) for _, path in compiler_sources()]
    assert {"ir.py", "compile.py"} <= {path.name for path in paths}
    others = [ROOT / name for name in ("tests", "benchmarks", "examples", "build", ".venv/bin")]
    assert not [p for p in paths if any(p.is_relative_to(folder) for folder in others)]
