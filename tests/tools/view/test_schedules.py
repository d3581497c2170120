"""The picture of a space of schedules."""

from __future__ import annotations

from xml.etree import ElementTree

from tileir.tools.view.schedules import schedules


def bars(picture: str) -> list[tuple[float, str]]:
    """Height and words of each bar, from left to right."""
    results = []
    for rect in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}rect"):
        title = rect.find("{http://www.w3.org/2000/svg}title")
        if title is not None and title.text and ":" in title.text:
            results.append((float(rect.attrib["x"]), float(rect.attrib["height"]), title.text))
    return [(height, words) for _, height, words in sorted(results)]


def test_bars_go_from_the_fastest_to_the_slowest() -> None:
    picture = schedules("softmax", [("slow", 3e-6), ("fast", 1e-6), ("fair", 1.04e-6)])
    drawn_bars = bars(picture)
    assert [words for _, words in drawn_bars] == ["1 us: fast", "1.04 us: fair", "3 us: slow"]
    assert (
        drawn_bars[0][0] < drawn_bars[2][0] and abs(drawn_bars[2][0] / drawn_bars[0][0] - 3) < 0.01
    )
    assert "3 schedules, 2 of them competitive (0.67)" in picture


def test_baselines_set_what_is_competitive() -> None:
    picture = schedules("relu", [("a", 2e-3), ("b", 3e-3)], {"torch": 2.9e-3})
    assert "2 of them competitive (1.00)" in picture and "torch 2.9 ms" in picture


def test_what_is_much_slower_is_cut_and_nothing_is_a_picture_too() -> None:
    drawn_bars = bars(schedules("relu", [("a", 1e-6), ("b", 1.0)]))
    assert drawn_bars[1][0] < 10 * drawn_bars[0][0]
    assert "0 schedules" in schedules("relu", [])
