"""The check of one generated program against one pass: whether the pass changed the program, and
whether the results are equal."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import attrs

from tileir.errors import InterpretError
from tileir.executor import Executor, executor
from tileir.ir import Module
from tileir.ops.atomic import AtomicKind, AtomicRMW
from tileir.ops.descriptor import DescriptorReduce
from tileir.passmanager import all_passes, run as optimise
from tileir.testing.executors import RunResult, interpreter, launcher, violation
from tileir.testing.matmul_programs import features, kernels as matmuls
from tileir.testing.matmul_programs.checking import MATMUL_PASSES, compare
from tileir.testing.matmul_programs.features import Features
from tileir.testing.policies import GPU, WARPS, GenerationPolicy, policy_of
from tileir.testing.program import Program
from tileir.testing.program_decoder import Freedom, Statement, decode, draw
from tileir.types import F32, element_of

SIMT, CPU, RANDOM, TEXT = "simt", "cpu", "random", "text"
"""Targets of checks besides passes: the SIMT simulator with any number of warps (with a certain one
by the names of `WARPS`), the CPU target, random pipelines, and the reader on malformed text. The
names of `GPU` stand for a GPU."""
EXECUTORS = "executors"
"""The target whose programs are run after the default pipeline, on the SIMT simulator and on the
CPU target; all three must agree with the interpreter."""


@attrs.frozen
class Verdict:
    """The result of a check. `failure` describes a failure, None if there is none. `discarded`
    states that the program itself is undefined."""

    fired: bool
    failure: str | None = None
    discarded: bool = False


@attrs.frozen
class PassCase:
    """A program, represented by its statements, that is checked against the pass `name`."""

    name: str
    seed: int
    statements: tuple[Statement, ...]
    freedom: Freedom

    @property
    def program(self) -> Program:
        if self.name in MATMUL_PASSES:
            return matmuls.program(Features.of(self.statements))
        program, policy = decode(self.statements, self.freedom), policy_of(self.name)
        if policy.stage is not None:
            program = program.with_module(attrs.evolve(program.module, stage=policy.stage))
        if policy.before:
            program = program.with_module(optimise(program.module, policy.before).module)
        if policy.detours:
            from tileir.testing.redundant_conversions import detour

            program = program.with_module(detour(program.module, self.seed))
        return program


def case(name: str, seed: int) -> PassCase:
    """Return the program for the pass `name` that `seed` selects."""
    policy = policy_of(name)
    if name in MATMUL_PASSES:
        return PassCase(name, seed, tuple(features.draw(seed, name)), Freedom())
    statements, freedom = draw(seed, policy.length, policy)
    return PassCase(name, seed, tuple(statements), freedom)


def check(test_case: PassCase) -> Verdict:
    """Run the pass, and compare the results of the program before and after it."""
    if test_case.name == TEXT:
        return _check_reader(text_of(test_case))
    program = test_case.program
    if test_case.name in MATMUL_PASSES:
        return Verdict(*compare(test_case.name, program, test_case.seed))
    if test_case.name == EXECUTORS:
        return _check_executors(program, test_case.seed)
    if test_case.name in (*WARPS, *GPU, SIMT, CPU):
        return _check_executor(test_case.name, program, test_case.seed)
    policy = policy_of(test_case.name)
    try:
        changed = optimise(program.module, pipeline_of(test_case)).module
    except Exception as error:
        return Verdict(True, f"{type(error).__name__}: {error}")
    if changed is program.module:
        return Verdict(False)
    failure = _check_repeatable(test_case, policy, program.module, changed)
    return (
        _compare(program, changed, policy, test_case.seed) if failure is None else _failure(failure)
    )


def text_of(test_case: PassCase) -> str:
    """The case as text."""
    from tileir.testing.fuzz_text import mutant, well_formed
    from tileir.textual import print_module

    if test_case.name == TEXT:
        return mutant(random.Random(test_case.seed), well_formed())
    return print_module(test_case.program.module)


def pipeline_of(test_case: PassCase) -> str:
    """The text of the pipeline that is run on the case."""
    if test_case.name != RANDOM:
        return policy_of(test_case.name).pipeline or test_case.name
    chance = random.Random(test_case.seed)
    passes = [
        p.name for p in all_passes() if not policy_of(p.name).stage and p.name not in MATMUL_PASSES
    ]
    return ",".join(chance.choices(passes, k=chance.randrange(2, 7)))


def _check_reader(text: str) -> Verdict:
    """Check that the reader rejects a text or accepts it, and fails in no other way."""
    from tileir.testing.fuzz_text import read

    result = read(text)
    return Verdict(result.refused, result.reason)


def _failure(failure: str) -> Verdict:
    return Verdict(True, failure)


def _check_repeatable(
    test_case: PassCase, policy: GenerationPolicy, module: Module, changed: Module
) -> str | None:
    """The failure if equal inputs yield different texts, or if an idempotent pass changes its own
    output; else None."""
    if test_case.seed % 16:
        return None
    from tileir.textual import print_module

    pipeline = pipeline_of(test_case)
    if print_module(optimise(module, pipeline).module) != print_module(changed):
        return "a second run on the same module gives another text"
    if policy.idempotent and optimise(changed, pipeline).module is not changed:
        return "a second run changes what the first one left"
    return None


def _compare(program: Program, changed: Module, policy: GenerationPolicy, seed: int) -> Verdict:
    for numbers in policy.numbers[: 1 if seed % 4 else None]:
        expected = _meaning(program, numbers, seed)
        if expected is None:
            return Verdict(True, discarded=True)
        try:
            result = interpreter(numbers)(program.with_module(changed), seed)
        except InterpretError as error:
            return _failure(f"{numbers}: {error}")
        text = violation(result, expected)
        if text is not None:
            return _failure(f"{numbers}: {text}")
    return Verdict(True)


def _meaning(program: Program, numbers: str, seed: int) -> RunResult | None:
    try:
        return interpreter(numbers)(program, seed)
    except InterpretError:
        return None


def _check_executor(name: str, program: Program, seed: int) -> Verdict:
    """Compare the results of the executor `name` with those of the interpreter."""
    expected = _meaning(program, "ieee", seed)
    if expected is None:
        return Verdict(True, discarded=True)
    return Verdict(True, _disagreement(name, program, seed, expected))


def _check_executors(program: Program, seed: int) -> Verdict:
    """Compare the results after the default pipeline, of the SIMT simulator and of the CPU target
    with those of the interpreter."""
    expected = _meaning(program, "ieee", seed)
    if expected is None:
        return Verdict(True, discarded=True)
    try:
        changed = program.with_module(optimise(program.module, "default").module)
        text = violation(interpreter()(changed, seed), expected)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    if text is not None:
        return _failure(f"default: {text}")
    for name in (SIMT, CPU):
        text = _disagreement(name, program, seed, expected)
        if text is not None:
            return _failure(f"{name}: {text}")
    return Verdict(True)


def _disagreement(name: str, program: Program, seed: int, expected: RunResult) -> str | None:
    """Run the program on the executor `name`, and describe how its results differ from `expected`;
    None if they do not."""
    kind = name if name == CPU else "gpu" if name in GPU else SIMT
    warps = {**WARPS, **GPU}.get(name, tuple(WARPS.values())[seed % len(WARPS)])
    options: dict[str, Any] = {} if kind == CPU else {"num_warps": warps}
    try:
        result = launcher(_executor(kind), **options)(program, seed)
    except Exception as error:
        return f"{options}: {type(error).__name__}: {error}"
    text = violation(result, expected, kind == "gpu" and adds_atomically(program.module))
    return None if text is None else f"{options}: {text}"


def adds_atomically(module: Module) -> bool:
    """Whether `module` adds f32 atomically, for which GPUs take subnormals as zeros."""
    ops = [op for function in module.functions.values() for op in function.ops]
    return any(
        isinstance(op, (AtomicRMW, DescriptorReduce))
        and op.op is AtomicKind.FADD
        and element_of(op.value.type) is F32
        for op in ops
    )


@cache
def _executor(name: str) -> Executor:
    return executor(name)
