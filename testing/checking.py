"""One generated program against one pass: whether it fired, and what it broke."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import attrs

from tileir.errors import InterpretError
from tileir.executor import Executor, executor
from tileir.ir import Module
from tileir.passmanager import all_passes, run as optimise
from tileir.testing.executors import Found, interpreter, launcher, violation
from tileir.testing.matmul_programs import features, kernels as products
from tileir.testing.matmul_programs.checking import PRODUCTS, compared
from tileir.testing.matmul_programs.features import Traits
from tileir.testing.policies import GPU, WARPS, Policy, policy_of
from tileir.testing.program import Program
from tileir.testing.program_decoder import Freedom, Statement, decode, drawn

SIMT, CPU, RANDOM, TEXT = "simt", "cpu", "random", "text"
"""What can be checked besides passes: the backend's threads, on any number of warps (on a given
one by the names of `WARPS`), its code for this machine's CPU, pipelines at random, and the reader
on malformed text. A GPU is asked for by the names of `GPU`."""


@attrs.frozen
class Verdict:
    """`failure` is None, or what is wrong; `discarded`: the program has no meaning itself."""

    fired: bool
    failure: str | None = None
    discarded: bool = False


@attrs.frozen
class Case:
    """A program by its statements, to be checked against the pass `name`."""

    name: str
    seed: int
    statements: tuple[Statement, ...]
    freedom: Freedom

    @property
    def program(self) -> Program:
        if self.name in PRODUCTS:
            return products.program(Traits.of(self.statements))
        program, policy = decode(self.statements, self.freedom), policy_of(self.name)
        if policy.stage is not None:
            program = program.with_module(attrs.evolve(program.module, stage=policy.stage))
        if policy.before:
            program = program.with_module(optimise(program.module, policy.before).module)
        if policy.detours:
            from tileir.testing.redundant_conversions import detour

            program = program.with_module(detour(program.module, self.seed))
        return program


def case(name: str, seed: int) -> Case:
    """Number `seed` of the programs for the pass `name`."""
    policy = policy_of(name)
    if name in PRODUCTS:
        return Case(name, seed, tuple(features.drawn(seed, name)), Freedom())
    statements, freedom = drawn(seed, policy.length, policy)
    return Case(name, seed, tuple(statements), freedom)


def check(made: Case) -> Verdict:
    """Run the pass; compare what the program means before and after."""
    if made.name == TEXT:
        return _read(text_of(made))
    program = made.program
    if made.name in PRODUCTS:
        return Verdict(*compared(made.name, program, made.seed))
    if made.name in (*WARPS, *GPU, SIMT, CPU):
        return _executed(made.name, program, made.seed)
    policy = policy_of(made.name)
    try:
        changed = optimise(program.module, pipeline_of(made)).module
    except Exception as error:
        return Verdict(True, f"{type(error).__name__}: {error}")
    if changed is program.module:
        return Verdict(False)
    failure = _repeated(made, policy, program.module, changed)
    return _compared(program, changed, policy, made.seed) if failure is None else _failed(failure)


def text_of(made: Case) -> str:
    """The case as text."""
    from tileir.testing.fuzz_text import mutant, well_formed
    from tileir.textual import print_module

    if made.name == TEXT:
        return mutant(random.Random(made.seed), well_formed())
    return print_module(made.program.module)


def pipeline_of(made: Case) -> str:
    """The text of the pipeline that the case is run through."""
    if made.name != RANDOM:
        return policy_of(made.name).pipeline or made.name
    chance = random.Random(made.seed)
    known = [p.name for p in all_passes() if not policy_of(p.name).stage and p.name not in PRODUCTS]
    return ",".join(chance.choices(known, k=chance.randrange(2, 7)))


def _read(text: str) -> Verdict:
    """Whether a text is refused, and not otherwise than it may be."""
    from tileir.testing.fuzz_text import read

    result = read(text)
    return Verdict(result.refused, result.reason)


def _failed(failure: str) -> Verdict:
    return Verdict(True, failure)


def _repeated(made: Case, policy: Policy, module: Module, changed: Module) -> str | None:
    """The same input gives the same text; an idempotent pass leaves its own output alone."""
    if made.seed % 16:
        return None
    from tileir.textual import print_module

    pipeline = pipeline_of(made)
    if print_module(optimise(module, pipeline).module) != print_module(changed):
        return "a second run on the same module gives another text"
    if policy.idempotent and optimise(changed, pipeline).module is not changed:
        return "a second run changes what the first one left"
    return None


def _compared(program: Program, changed: Module, policy: Policy, seed: int) -> Verdict:
    for numbers in policy.numbers[: 1 if seed % 4 else None]:
        expected = _meaning(program, numbers, seed)
        if expected is None:
            return Verdict(True, discarded=True)
        try:
            result = interpreter(numbers)(program.with_module(changed), seed)
        except InterpretError as error:
            return _failed(f"{numbers}: {error}")
        text = violation(result, expected)
        if text is not None:
            return _failed(f"{numbers}: {text}")
    return Verdict(True)


def _meaning(program: Program, numbers: str, seed: int) -> Found | None:
    try:
        return interpreter(numbers)(program, seed)
    except InterpretError:
        return None


def _executed(name: str, program: Program, seed: int) -> Verdict:
    """Compare what the executor `name` computes with what the program means."""
    expected = _meaning(program, "ieee", seed)
    if expected is None:
        return Verdict(True, discarded=True)
    kind = name if name == CPU else "gpu" if name in GPU else SIMT
    warps = {**WARPS, **GPU}.get(name, tuple(WARPS.values())[seed % len(WARPS)])
    options: dict[str, Any] = {} if kind == CPU else {"num_warps": warps}
    try:
        result = launcher(_executor(kind), **options)(program, seed)
    except Exception as error:
        return _failed(f"{options}: {type(error).__name__}: {error}")
    text = violation(result, expected)
    return Verdict(True) if text is None else _failed(f"{options}: {text}")


@cache
def _executor(name: str) -> Executor:
    return executor(name)
