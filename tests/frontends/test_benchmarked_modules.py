"""The modules that `benchmarks/tensor_languages.py` measures are what the frontends give now."""

import runpy
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "tensor_languages.py"


def test_the_modules_are_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARK.parent)  # as where the script is run
    namespace = runpy.run_path(str(BENCHMARK))
    for name, text in namespace["texts"]().items():
        written = (namespace["FOLDER"] / name).read_text()
        assert written == text, "run: python benchmarks/tensor_languages.py --write"
