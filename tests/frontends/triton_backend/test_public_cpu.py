"""Programs of torch.compile and of libraries on the CPU: smaller numbers, outcomes, the table."""

import ast
import json
import sys

import pytest


@pytest.fixture
def public(benchmarks, monkeypatch):
    """What imports a module of benchmarks/public by its name."""
    folder = benchmarks("triton_suite").HERE / "public"
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield __import__
    for name in set(sys.modules) - before:
        if name in ("small", "on_cpu"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("expression", "smaller"),
    [
        ("128", 128), ("129", 128), ("4096", 128), ("32000", 1000), ("1 << 20", 1 << 15),
        ("2 * 8192", 2 * 256), ("-65536", -2048), ("4096.0", 4096.0), ("True", True),
    ],
)  # fmt: skip
def test_numbers_are_smaller(public, expression, smaller):
    tree = public("small").shrink_numbers(ast.parse(f"x = {expression}"))
    namespace = {}
    exec(compile(tree, "", "exec"), namespace)
    assert namespace["x"] == smaller
    assert type(namespace["x"]) is type(smaller)


def row(case, outcome, **kernels):
    return {"case": case, "outcome": outcome, "kernels": kernels}


def test_outcomes_are_counted_by_package(public):
    on_cpu = public("on_cpu")
    rows = [
        row("liger/a", "right", one="native", two="native"),
        row("liger/b", "wrong", one="native"),
        row("compile/c", "right", k="native"),
        row("compile/d", "refused", k="error[TIR0712]"),
    ]
    result = on_cpu.summary({r["case"]: r for r in rows})
    assert (result["liger"]["right"], result["liger"]["wrong"]) == (1, 1)
    assert (result["liger"]["kernels"], result["liger"]["native"]) == (2, 2)
    assert (result["compile"]["kernels"], result["compile"]["native"]) == (2, 1)
    heading, *lines = on_cpu.table_rows(result)
    assert [len(line) for line in lines] == [len(heading)] * 2


def test_the_documentation_has_what_was_found(public, benchmarks):
    on_cpu, tables = public("on_cpu"), benchmarks("tables")
    record = json.loads(on_cpu.RESULTS.read_text())
    table = tables.markdown(on_cpu.table_rows(record))
    assert f"{tables.mark(on_cpu.NAME)}\n\n{table}\n\n{tables.END}" in on_cpu.PAGE.read_text()
    assert not any(counts["wrong"] for counts in record.values())


def test_a_reference_takes_the_gradients_that_the_kernel_takes(public):
    """Rounded to the type of the results, they would differ from the reference's by themselves."""
    torch = pytest.importorskip("torch")
    gradients = []
    for kind in (torch.bfloat16, torch.float16, torch.float64):
        x = torch.ones(1000, dtype=kind, requires_grad=True)
        step = public("cases").gradient_step(lambda x: x * 1, x, reference=lambda x: x * 1)
        for run in (step.run, step.reference):
            torch.manual_seed(0)
            gradients.append(run()[1].double())
    assert all((t == gradients[0]).all() for t in gradients)
