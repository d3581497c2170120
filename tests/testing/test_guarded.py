"""Generated programs have every op that takes a predicate under one, and every promise about a
parameter together with every op that accesses memory."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.sizes import few_or_all
from tileir.analysis.argument_effects import underlying_parameters
from tileir.ir import ParameterAttributes
from tileir.op import all_ops
from tileir.passmanager import run as optimise
from tileir.testing import decode, difference, names, run, sample
from tileir.testing.program_decoder import DIGITS
from tileir.verify import verify

PROGRAMS = 3000
"""Programs among which every pair occurs."""
OTHERS = {
    "print", "clock", "globaltimer",  # their results are no memory, or not the same twice
    "inline_asm", "extern_elementwise",  # no meaning here, or of one target
    "fence", "dot_scaled", "global_address", "multiple_of", "contiguous", "constant_run",
    "ptrtoint", "inttoptr", "addrspacecast", "unsplat", "program_id",
    "num_programs", "make_descriptor",
}  # fmt: skip
"""Ops that generated programs do not predicate."""
READS = ("load", "atomic_load", "descriptor_load", "descriptor_gather")
WRITES = ("store", "atomic_store", "descriptor_store", "descriptor_scatter")
UPDATES = ("atomic_rmw", "atomic_cas", "descriptor_reduce")


@cache
def drawn_ops() -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """How often ops are predicated, and how often memory ops access what something is promised
    of, in the first programs."""
    predicated: Counter[str] = Counter()
    promised: Counter[tuple[str, str]] = Counter()
    for seed in range(PROGRAMS):
        kernel = sample(seed).module.kernel()
        reached = underlying_parameters(kernel)
        promises = {p.value: words(p.attributes) for p in kernel.parameters}
        for op in kernel.ops:
            if op.predicate is not None:
                predicated[op.mnemonic] += 1
            if op.mnemonic in (*READS, *WRITES, *UPDATES):
                for source in reached.get(op.inputs[0], ()):
                    for word in promises.get(source, ()):
                        promised[op.mnemonic, word] += 1
    return predicated, promised


def words(attributes: ParameterAttributes) -> list[str]:
    """What is promised, in words."""
    flags = [n for n in ("noalias", "readonly", "writeonly") if getattr(attributes, n)]
    return [*flags, f"aligned({attributes.aligned})"]


@pytest.mark.slow
def test_every_op_that_takes_a_predicate_has_one() -> None:
    takers = {c.mnemonic for c in all_ops() if c.predicable and not c.mnemonic.startswith("gpu.")}
    assert sorted(takers - OTHERS - drawn_ops()[0].keys()) == []


@pytest.mark.slow
def test_every_promise_is_tried_with_every_access() -> None:
    usual = ("noalias", "aligned(0)", "aligned(2)", "aligned(4)", "aligned(16)")
    expected = {(op, word) for op in (*READS, *WRITES, *UPDATES) for word in usual}
    expected |= {(op, "readonly") for op in READS} | {(op, "writeonly") for op in WRITES}
    assert sorted(expected - drawn_ops()[1].keys()) == []


def test_a_number_is_promised_to_be_a_multiple() -> None:
    number, promise = names().index("number"), names().index("promise")
    multiples = set()
    for digit in range(4):
        program = decode([(number, 0, 0, 0), (promise, 0, digit, 0)])
        (parameter,) = [p for p in program.module.kernel().parameters if p.name == "n"]
        assert program.numbers["n"] % parameter.attributes.multiple_of == 0
        multiples.add(parameter.attributes.multiple_of)
        run(program)
    assert len(multiples) == 4


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kinds", few_or_all(4, DIGITS))
@pytest.mark.parametrize("name", [n for n in names() if n != "guarded"])
def test_a_statement_under_a_predicate_is_legal_and_keeps_its_meaning(
    name: str, kinds: int
) -> None:
    all_names, guarded = names(), names().index("guarded")
    for kind in range(kinds):
        digits = [(3 * kind + 7 * n + len(name)) % DIGITS for n in range(7)]
        genes = [
            (all_names.index("corners"), *digits[:3]), (guarded, kind, *digits[3:5]),
            (all_names.index(name), *digits[4:]), (all_names.index("close"), 0, 0, 0),
        ]  # fmt: skip
        program = decode(genes)
        assert verify(program.module) == ()
        changed = optimise(program.module, "lower-predicates").module
        assert difference(run(program.with_module(changed)), run(program)) is None
