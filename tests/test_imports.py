"""What an import brings along, and what other distributions can add."""

import json
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

HEAVY = ("numpy", "ml_dtypes", "llvmlite", "cuda", "hypothesis", "rich", "lark")
SLOW = ("subprocess",)
"""Parts of Python that take longer to load than most of ours."""


def loaded_by(statement: str) -> set[str]:
    """The heavy distributions, slow modules, op families and parts of Triton's frontend that
    `statement` loads in a new process. What the process begins with (a `.pth` file of the CUDA
    bindings imports `cuda`) does not count."""
    before = "import json, sys; before = set(sys.modules)"
    report = "print(json.dumps(sorted(set(sys.modules) - before)))"
    run = subprocess.run(
        [sys.executable, "-P", "-c", f"{before}\n{statement}\n{report}"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = json.loads(run.stdout)
    parts = ("tileir.ops.", "tileir.frontends.triton.")
    return {n for n in names if n in HEAVY + SLOW or n.startswith(parts)}


@pytest.mark.parametrize(
    "statement",
    ["import tileir", "import tileir.textual", "import tileir.tools.main, tileir.tools.explain"],
)
def test_text_and_structure_need_nothing_heavy(statement):
    assert not loaded_by(statement) & set(HEAVY)


def test_importing_the_ir_loads_few_op_families():
    assert loaded_by("import tileir") <= {"tileir.ops.control", "tileir.ops.predicate"}


def test_the_backend_loads_llvm_only_to_compile():
    assert not loaded_by("import tileir.backend") & {"llvmlite", "cuda"}


def test_a_first_kernel_waits_for_nothing_it_can_do_without():
    assert not loaded_by("import tileir.builder, tileir.backend") & {*HEAVY, *SLOW}


def test_reading_ttir_loads_no_language_and_no_launches():
    result = loaded_by("import tileir.frontends.ttir")
    assert "tileir.frontends.triton.building" in result
    assert not result & {"tileir.frontends.triton.language", "tileir.frontends.triton.runtime"}


def test_the_backend_of_triton_loads_nothing_of_launches_to_compile():
    result = loaded_by("import tileir.frontends.triton_backend.stages")
    unneeded = {"tileir.interp", "tileir.backend.executors", "tileir.backend.runtime.dispatch"}
    assert not result & unneeded


def test_the_names_of_triton_are_there_when_asked_for():
    import tileir.frontends.triton as triton

    assert all(getattr(triton, name) is not None for name in triton.__all__)
    with pytest.raises(AttributeError, match="no attribute 'jitter'"):
        triton.jitter  # noqa: B018


def test_generators_need_hypothesis_only_for_strategies():
    assert "hypothesis" not in loaded_by("from tileir.testing import sample")
    assert "hypothesis" in loaded_by("from tileir.testing import programs")


def test_public_names_are_found_and_others_refused():
    import tileir

    for name in tileir.__all__:
        assert getattr(tileir, name) is not None
    assert callable(tileir.verify) and callable(tileir.interpret)
    with pytest.raises(AttributeError):
        tileir.nothing_of_this_name  # noqa: B018


def test_a_checkout_imports_without_being_installed():
    root = Path(__file__).parents[1]
    program = (
        "import tileir, tileir.backend, tileir.tools.opt, tileir.frontends.tile as t; "
        "print(tileir.__file__, tileir.backend.__file__, tileir.tools.opt.__file__, t.__file__)"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    results = [Path(path).relative_to(root).parts[0] for path in run.stdout.split()]
    assert results == ["tileir", "backend", "tools", "frontends"], run.stderr


@pytest.mark.parametrize("part", ["backend", "builder", "frontends", "textual", "tools"])
def test_parts_are_found_by_the_folder_of_the_package(part):
    import tileir

    assert PathFinder.find_spec(f"tileir.{part}", list(tileir.__path__)) is not None


def test_ops_of_other_distributions_are_found_by_entry_point(tmp_path):
    (tmp_path / "acme_ops.py").write_text(
        "from tileir.op import Op, op\n"
        '@op("acme.nop")\nclass Nop(Op):\n    """Nothing.\n\n    `acme.nop`\n    """\n'
        "    def evaluate(self, machine): return ()\n"
    )
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tileir.ops]\nacme = acme_ops\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from tileir.op import lookup\nprint(lookup('acme.nop').mnemonic)"
    )
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert run.stdout == "acme.nop\n", run.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("acme-plain", "pass acme-plain do not say whether it takes a Function or a Module"),
        ("acme-none", "pass acme-none (acme_passes:none) cannot be loaded: AttributeError"),
    ],
)
def test_passes_of_other_distributions_that_are_wrong_are_errors(tmp_path, name, message):
    (tmp_path / "acme_passes.py").write_text(
        "from tileir.passmanager.registry import pass_\n"
        '@pass_("acme-plain")\ndef plain(function):\n    """Nothing."""\n    return function\n'
    )
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tileir.passes]\nacme-plain = acme_passes:plain\nacme-none = acme_passes:none\n"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from tileir.errors import PassError\nfrom tileir.passmanager.find_passes import lookup\n"
        f"try: lookup({name!r})\nexcept PassError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert "TIR0601" in run.stdout and message in run.stdout, run.stderr


def test_the_package_lists_each_name_once() -> None:
    import tileir

    listed = dir(tileir)
    assert len(listed) == len(set(listed)) and {*tileir.__all__, "backend"} <= set(listed)


def test_a_module_without_functions_loads_no_op() -> None:
    program = "import tileir.textual as t; t.print_module(t.parse('tir 1.0\\n'))"
    report = "import sys; print(*{'tileir.op', 'tileir.textual.statements'} & set(sys.modules))"
    words = [sys.executable, "-P", "-c", f"{program}\n{report}"]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not run.stdout.split()


def test_a_phi_loads_no_more_op_families_than_the_ops_with_it() -> None:
    text = "tir 1.0\ndefine i32 @f(i32 %n) {\nentry:\n  br next\nnext:\n"
    text += "  %v = phi i32 [%n, entry]\n  ret %v\n}\n"
    loaded = loaded_by(f"import tileir.textual; tileir.textual.parse({text!r})")
    assert "tileir.ops.control" in loaded and "tileir.ops.shape" not in loaded
