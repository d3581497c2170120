"""`tileir reduce` and its search."""

import sys

import numpy as np
import pytest

from tileir.errors import TileirError
from tileir.interp import interpret
from tileir.ops.arith import Or, Sub
from tileir.passmanager import Pass, find_passes, run
from tileir.rewrite import Replace, rewrite
from tileir.testing import sample
from tileir.testing.reduction import op_count, reduce
from tileir.textual import parse, print_module
from tileir.tools.main import main
from tileir.tools.opt import main as opt
from tileir.values import Constant
from tileir.verify import verify


def swapping(mnemonic, new):
    """A pass with a planted bug: every op `mnemonic` becomes what `new` makes of it, once."""

    def plant(function):
        seen = set()

        def rule(op, walk):
            if op in seen or op.predicate is not None:
                return op
            wrong = new(op)
            if wrong is op:
                return op
            seen.add(wrong)
            return Replace(wrong.results, (wrong,))

        return rewrite(function, {mnemonic: rule})

    return plant


def swap_operands(op):
    """Of two values: what is taken from a literal are places counted from the end of a buffer."""
    return op if isinstance(op.lhs, Constant) else Sub(op.rhs, op.lhs)


BUGS = {
    "sub": swapping("sub", swap_operands),
    "select": swapping("select", lambda op: type(op)(op.condition, op.otherwise, op.then)),
    "xor": swapping("xor", lambda op: Or(op.lhs, op.rhs)),
}


def outputs(program, module):
    arrays = program.arguments()
    kernel = module.functions[program.kernel]
    arguments = {p.name: arrays[p.name] for p in kernel.parameters}
    interpret(module, program.kernel, program.grid, arguments, limit=20_000)
    return {name: np.asarray(value).tobytes() for name, value in arguments.items()}


def is_miscompiled_by(program, wrong):
    """Whether `wrong` changes what a module means."""

    def interesting(module):
        if program.kernel not in module.functions:
            return False
        changed = wrong(module.functions[program.kernel])
        after = module.with_functions({**module.functions, program.kernel: changed})
        try:
            return outputs(program, module) != outputs(program, after)
        except TileirError:
            return False

    return interesting


def addressing(module):
    """How many ops compute nothing but the addresses of loads and stores."""
    (function,) = module.functions.values()
    ops, addresses = list(function.ops), set()
    for op in reversed(ops):
        users = [user for user in ops if not set(op.results).isdisjoint(user.inputs)]
        if op.results and all(
            user in addresses
            or user.mnemonic == "load"
            or (user.mnemonic == "store" and user.value not in op.results)
            for user in users
        ):
            addresses.add(op)
    return len(addresses)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_miscompile_of_200_ops_becomes_a_handful(name):
    """A handful besides the ops that compute where each instance loads and stores."""
    count = 0
    for seed in range(240):
        program = sample(seed, 120)
        interesting = is_miscompiled_by(program, BUGS[name])
        if op_count(program.module) < 200 or not interesting(program.module):
            continue
        small = reduce(program.module, interesting)
        verify(small)
        assert interesting(small)
        assert op_count(small) - addressing(small) <= 6, print_module(small)
        count += 1
        if count == 2:
            break
    assert count == 2


@pytest.mark.slow
def test_the_result_depends_on_module_and_predicate_alone():
    programs = (sample(seed, 120) for seed in range(240))
    program, interesting = next(
        (program, test)
        for program in programs
        if (test := is_miscompiled_by(program, BUGS["sub"]))(program.module)
    )
    first, second = (print_module(reduce(program.module, interesting)) for _ in range(2))
    assert first == second


def has(*words):
    def interesting(module):
        text = print_module(module)
        return all(word in text for word in words)

    return interesting


TEXT = """tir 1.0

metadata {
  note = "about nothing"
}

; what this is for
define private i32 @twice(i32 %x) {
entry:
  %y = add i32 %x, %x
  ret %y
}

define kernel void @f(f32* aligned(16) readonly %p, i32 %n, f32* %q) {num_warps = 8} {
entry:
  %r = make_range i32<128>
  %s = splat f32*<128> %p
  %a = getelementptr f32*<128> %s, %r
  %e = splat i32<128> %n
  %m, _ = icmp (i1<128>, i1<128>) %r, %e {predicate = slt}
  %x = load f32<128> %a, %m, 0.0 {eviction = last}
  %y = exp f32<128> %x
  %z = reduce f32 %y {combiner = fadd}
  %t = call i32 @twice, %n
  %c, _ = icmp (i1, i1) %t, 5 {predicate = slt}
  cond_br %c, then, exit
then:
  store %q, %z
  br exit
exit:
  ret
}
"""


def test_everything_else_goes():
    small = reduce(parse(TEXT), has("exp f32"))
    assert (
        print_module(small)
        == ("tir 1.0\n\ndefine void @f() {\nentry:\n  _ = exp f32 f32 0.0\n  ret\n}\n")
        or op_count(small) == 2
    )
    assert list(small.functions) == ["f"] and not small.metadata
    assert not small.functions["f"].parameters and not small.functions["f"].attributes


@pytest.mark.parametrize(
    ("words", "ops"),
    [
        (("reduce f32", "fadd"), 2),
        (("call i32 @twice",), 3),
        (("cond_br", "store"), 4),
        (("eviction = last",), 2),
        (("%m, _ = icmp",), 2),
    ],
)
def test_what_is_asked_for_stays(words, ops):
    small = reduce(parse(TEXT), has(*words))
    assert op_count(small) <= ops + 1, print_module(small)
    assert has(*words)(small)


def test_tiles_shrink():
    small = reduce(parse(TEXT), has("reduce f32"))
    assert "128" not in print_module(small)


def test_limits_and_reports():
    reports = []
    reduce(parse(TEXT), has("exp f32"), report=lambda p, m: reports.append(p), tries=5)
    assert reports and reports[-1].tried <= 5
    assert [p.accepted for p in reports] == list(range(1, len(reports) + 1))
    with pytest.raises(ValueError, match="is false for"):
        reduce(parse(TEXT), has("no such thing"))


# The command --------------------------------------------------------------------------------


def test_a_command_judges(tmp_path, capsys):
    path, out = tmp_path / "a.tir", tmp_path / "small" / "b.tir"
    path.write_text(TEXT)
    script = tmp_path / "check.py"
    script.write_text("import sys\nsys.exit('exp f32' not in open(sys.argv[1]).read())\n")
    command = f"{sys.executable} -S {script} {{}}"
    assert main(["reduce", str(path), "--predicate", command, "-o", str(out)]) == 0
    assert op_count(parse(out.read_text())) == 2
    err = capsys.readouterr().err
    assert "16 ops -> 2 ops" in err and " tried, " in err


def test_a_predicate_that_does_not_hold(tmp_path, capsys):
    path = tmp_path / "a.tir"
    path.write_text(TEXT)
    assert main(["reduce", str(path), "--predicate", "false"]) == 1
    assert "TIR0910" in capsys.readouterr().err
    assert main(["reduce", str(path), "--predicate", "no-such-command-here"]) == 1
    assert "cannot run" in capsys.readouterr().err
    assert main(["reduce", str(path)]) == 1
    assert "TIR0607" in capsys.readouterr().err


def test_a_crash_reproducer_feeds_it(tmp_path, capsys, monkeypatch):
    def crash(function):
        if any(op.mnemonic == "exp" for op in function.ops):
            raise KeyError("exp")
        return function

    monkeypatch.setitem(find_passes._PASSES, "crash", Pass("crash", crash, "function", ()))
    source, crashed = tmp_path / "a.tir", tmp_path / "crash.tir"
    source.write_text(TEXT)
    assert opt([str(source), "-p", "default,crash", "--reproducer", str(crashed)]) == 1
    corpus = tmp_path / "corpus"
    assert main(["reduce", str(crashed), "--corpus", str(corpus)]) == 0
    (path_of_case,) = corpus.iterdir()
    assert path_of_case.name.startswith("crash-")
    small = parse(path_of_case.read_text())
    assert op_count(small) == 2
    assert opt(["--run-reproducer", str(path_of_case)]) == 1
    assert "KeyError" in capsys.readouterr().err
    assert run(parse(TEXT), "default")
