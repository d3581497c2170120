"""Campaigns add up, go on where they ended, and make what fails small; refinement; policies."""

from types import SimpleNamespace

import numpy as np
import pytest

from tileir.ops.arith import Sub
from tileir.rewrite import rewrite
from tileir.testing import Found, checking, names, run, sample, shrink, single, violation
from tileir.testing.campaign import Total, explore, read, write
from tileir.testing.policies import Policy, policy_of


def test_a_campaign_goes_on_where_it_ended(tmp_path):
    total, file = Total(), tmp_path / "totals.json"
    while total.programs < 3:
        explore("dce", total, 0.05, tmp_path)
    write(file, {"dce": total})
    again = read(file)["dce"]
    assert again == total
    explore("dce", again, 0.05, tmp_path)
    assert again.programs > total.programs and again.fired == again.programs and not again.open


def wrong(module, _):
    """Turn additions into subtractions: a planted bug."""

    def sub(op, walk):
        return Sub(op.lhs, op.rhs) if op.location is None and op.rhs is not op.lhs else op

    kernel = rewrite(module.kernel(), {"add": sub})
    return SimpleNamespace(
        module=module.evolve(functions={**module.functions, kernel.name: kernel})
    )


def test_a_planted_bug_is_found_and_made_small(tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "optimise", wrong)
    total = Total()
    explore("dce", total, 20, tmp_path)
    assert total.open
    sizes = [len(p.read_text().splitlines()) for p in tmp_path.glob("*.tir")]
    assert min(sizes) < 80


def test_shrinking_keeps_what_fails():
    statements = [(n, 5, 6, 7) for n in range(40)]
    fails = lambda made: {s[0] for s in made} >= {3, 17}  # noqa: E731
    assert shrink(statements, fails) == [(3, 0, 0, 0), (17, 0, 0, 0)]


def test_undefined_lanes_may_become_anything_and_no_others():
    wanted = Found({"o": np.int32([1, 2, 3])}, {"o": np.bool_([0, 1, 0])})
    assert violation(Found({"o": np.int32([1, 9, 3])}), wanted) is None
    assert violation(Found({"o": np.int32([1, 2, 4])}), wanted).startswith("o[2]")
    lost = Found({"o": np.int32([1, 2, 3])}, {"o": np.bool_([0, 1, 1])})
    assert violation(lost, wanted).startswith("o[2] is undefined")


@pytest.mark.parametrize("name", names()[::7])
def test_programs_of_one_statement(name):
    run(single(name, 1))


def test_large_programs_and_policies():
    assert sum(1 for _ in sample(1, 600).module.kernel().ops) > 900
    loops = Policy({"loop": 50}, length=30)
    headers = [len(sample(s, 30, loops).module.kernel().blocks) for s in range(5)]
    assert min(headers) > 4
    assert policy_of("nothing of this name").undef > 0
