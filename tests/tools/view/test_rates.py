"""Pictures of rates: a bar for every program, as tall as it is fast, a roof for every problem."""

import re

from tileir.tools.view.rates import RateProblem, rates


def test_bars_and_roofs():
    picture = rates("Matmuls", "TFLOP/s", [
        RateProblem("512 512 512", {"cuBLAS": 40.0, "tileir": 80.0}, 160.0),
        RateProblem("64 64", {"tileir": 20.0}, 20.0),
    ])  # fmt: skip
    matches = re.findall(r"<title>([^<]*)</title>", picture)
    assert matches.count("512 512 512, tileir: 80 TFLOP/s") == 1
    assert "64 64, cuBLAS" not in picture and "64 64: at most 20 TFLOP/s" in matches
    heights = {
        title: float(height)
        for height, title in re.findall(r'height="([\d.]+)"[^>]*>\s*<title>([^<]*)<', picture)
    }
    one, two = (heights[f"512 512 512, {n}"] for n in ("cuBLAS: 40 TFLOP/s", "tileir: 80 TFLOP/s"))
    assert two == 2 * one
