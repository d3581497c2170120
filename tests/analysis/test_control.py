"""Dominance, frontiers and loops against their definitions."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

from hypothesis import given, settings

from tests.analysis.graphs import graph, graphs
from tileir.analysis.cfg import cfg, reachable as following
from tileir.analysis.dominance import EXIT, dominance, frontiers, post_dominance
from tileir.analysis.loops import loops
from tileir.ir import Function


def reachable(function: Function, start: str, without: str | None) -> set[str]:
    """What `start` reaches on paths that avoid the block `without`."""
    if start == without:
        return set()
    seen, stack = {start}, [start]
    while stack:
        for target in cfg(function).successors[stack.pop()]:
            if target != without and target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def naive_dominators(function: Function) -> dict[str, set[str]]:
    entry, labels = function.entry.label, cfg(function).order
    cut = {a: reachable(function, entry, a) for a in labels}
    return {b: {a for a in labels if b not in cut[a]} for b in labels}


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_what_control_may_reach_is_the_closure_of_the_edges(function: Function) -> None:
    edges = cfg(function).successors
    closure = {label: set(targets) for label, targets in edges.items()}
    for middle in edges:  # Warshall, "A theorem on Boolean matrices", 1962
        for reached in closure.values():
            reached |= closure[middle] if middle in reached else set()
    assert closure == {label: following(label, edges) for label in edges}


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_dominance_is_what_its_definition_says(function: Function) -> None:
    tree, naive = dominance(function), naive_dominators(function)
    for below, above in naive.items():
        assert {a for a in naive if tree.dominates(a, below)} == above
        if below != tree.root:
            assert naive[tree.parent[below]] == above - {below}


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_preorder_puts_dominators_first_and_subtrees_together(function: Function) -> None:
    tree = dominance(function)
    place = {label: i for i, label in enumerate(tree.preorder)}
    assert sorted(place) == sorted(cfg(function).order)
    for label in place:
        below = [place[b] for b in place if tree.dominates(label, b)]
        assert sorted(below) == list(range(place[label], place[label] + len(below)))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_frontiers_are_where_dominance_ends(function: Function) -> None:
    tree, graph_ = dominance(function), cfg(function)
    for above, frontier in frontiers(function).items():
        expected = {
            b for b in graph_.order
            if any(tree.dominates(above, p) for p in graph_.predecessors[b])
            and not tree.strictly_dominates(above, b)
        }  # fmt: skip
        assert frontier == expected


def naive_post_dominators(function: Function) -> dict[str, set[str]]:
    """By paths to any block without successors; every block must reach one."""
    labels = cfg(function).order
    ends = {b for b in labels if not cfg(function).successors[b]}
    by_below: dict[str, set[str]] = {}
    for below in labels:
        by_below[below] = {
            a for a in labels if a == below or not reachable(function, below, a) & ends
        }
    return by_below


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_post_dominance_is_what_its_definition_says(function: Function) -> None:
    labels = cfg(function).order
    ends = {b for b in labels if not cfg(function).successors[b]}
    tree = post_dominance(function)
    assert set(tree.preorder) == {EXIT, *labels}
    if all(reachable(function, b, None) & ends for b in labels):
        naive = naive_post_dominators(function)
        for label in labels:
            assert {a for a in labels if tree.dominates(a, label)} == naive[label]


def test_a_loop_that_never_ends_still_has_post_dominators() -> None:
    tree = post_dominance(graph([[1], [2], [1]]))
    assert tree.parent == {"b0": "b1", "b1": "b2", "b2": EXIT}


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_loops_are_the_cycles_through_dominating_headers(function: Function) -> None:
    tree, graph_, result = dominance(function), cfg(function), loops(function)
    back = {(a, b) for a in graph_.order for b in graph_.successors[a] if tree.dominates(b, a)}
    assert set(result.by_header) == {header for _, header in back}
    for header, loop in result.by_header.items():
        assert set(loop.latches) == {a for a, b in back if b == header}
        assert loop.blocks == {header} | {
            b for b in graph_.order
            for latch in loop.latches
            if b == latch or latch in (reachable(function, b, header) if b != header else ())
        }  # fmt: skip
        assert set(loop.exits) == crossing(function, loop.blocks)
        _check_nest(result.by_header, header)


def crossing(function: Function, blocks: Iterable[str]) -> set[tuple[str, str]]:
    return {(a, b) for a in blocks for b in cfg(function).successors[a] if b not in set(blocks)}


def _check_nest(by_header: object, header: str) -> None:
    assert isinstance(by_header, dict)
    loop = by_header[header]
    around = [o for o in by_header.values() if header in o.blocks and o.header != header]
    assert loop.depth == len(around) + 1
    nearest = min(around, key=lambda o: len(o.blocks), default=None)
    assert loop.parent == (nearest.header if nearest else None)


def test_a_preheader_leads_nowhere_else() -> None:
    loop_info = loops(graph([[1], [1, 2], []])).by_header["b1"]
    assert (loop_info.preheader, loop_info.latch, loop_info.exits) == ("b0", "b1", (("b1", "b2"),))
    assert loops(graph([[1, 2], [1, 2], []])).by_header["b1"].preheader is None


def test_a_cycle_with_two_entries_is_no_loop() -> None:
    loop_info = loops(graph([[1, 2], [2], [1]]))
    assert loop_info.irreducible and not loop_info.by_header


def test_facts_are_computed_once_and_die_with_their_function() -> None:
    function = graph([[1], []])
    assert dominance(function) is dominance(function)
    watch = weakref.ref(function)
    del function
    gc.collect()
    assert watch() is None
