"""A fixed thirtieth of the op by type by shape matrix through the lowering rules: threads agree
with the interpreter, and every cell assembles for two targets.

`python -m tileir.testing.matrix --all` runs every cell; its table is
`benchmarks/results/matrix.json`.
"""

import numpy as np
import pytest

import tileir
from tileir.op import all_ops
from tileir.passmanager import run
from tileir.testing.matrix import (
    BATCH,
    TARGETS,
    Tally,
    assemble,
    cases,
    check,
    interpreter_results,
    variant_cases,
    warps_of,
)
from tileir.testing.matrix_compare import differences
from tileir.testing.matrix_kernels import FOLLOWED
from tileir.testing.matrix_variants import all_variants, dimensions

EVERY = 3
"""Of how many cells of a tenth, and uses by pairs, one runs here; campaigns run all of them."""
CPU_EVERY = 4
"""Of how many uses one runs as native code, too."""
NAMES = [o.mnemonic for o in all_ops() if not o.mnemonic.startswith("gpu.")]
WITHOUT_CELLS = {"br", "cond_br", "ret", "unreachable", "call", "inline_asm"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_CELLS))
def test_cells_agree_and_assemble(name):
    tally, selected = Tally(), list(cases([name], every=False))[::EVERY]
    with np.errstate(all="ignore"):
        for case in selected:
            check(case, tally, (warps_of(case),))
    for start in range(0, len(selected), BATCH):
        for target in TARGETS:
            assemble(selected[start : start + BATCH], {name: tally}, target)
    assert not tally.failures
    assert tally.equal == tally.cells == len(selected) > 0
    assert tally.assembled == dict.fromkeys(TARGETS, len(selected))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_CELLS))
def test_uses_agree(name):
    """Predicates, constant operands and promises by pairs: passes, threads and native code."""
    tally, uses = Tally(), list(variant_cases([name], every=False))[::EVERY]
    with np.errstate(all="ignore"):
        for number, case in enumerate(uses):
            changed, arguments = run(case.module(), "default").module, case.arguments()
            tileir.interpret(changed, case.kernel, (1,), arguments, allow_undef=True)
            assert differences(case, interpreter_results(case), arguments) == "", case.name
            check(case, tally, (warps_of(case),), cpu=number % CPU_EVERY == 0)
    assert tally.failures == []
    assert tally.equal == tally.cells == len(uses) > 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["add", "load", "fcmp", "descriptor_store", "atomic_cas"])
def test_uses_have_every_predicate_constant_and_promise(name):
    uses = [case.variant for case in variant_cases([name], every=False)]
    ops = [case.op for case in variant_cases([name], every=False)]
    followed = FOLLOWED.get(name, ())
    most = max(ops, key=lambda op: len(all_variants(op, followed)))
    results = [(use.predicate, use.constants, use.promise) for use in uses]
    for seen, values in zip(zip(*results, strict=True), dimensions(most, followed), strict=True):
        assert set(seen) == set(values)
    assert len(results) < len(all_variants(most, followed)) or len(results) <= 25
