"""The stages of Triton's CUDA backend, with a backend that stands for Triton's."""

import re
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tileir.backend.nvptx.llvm_codegen import llvm_binding
from tileir.errors import TileirError, UnsupportedError
from tileir.frontends.triton_backend import stages as hook_stages
from tileir_triton import hook, reporting
from tileir_triton.settings import Settings

from .fakes import cuda_backend, install_fake, options
from .kernels import ADD, BLOCK_OF_8, DESCRIBED, DESCRIBED_MATMUL, FOREIGN, OF_A_LIBRARY

HERE = Path(__file__).parent
compiler = sys.modules["tileir.backend.compile"]
LONG_ADD = ADD.replace("64", "1024")
"""Every thread of 32 warps has an element."""


@pytest.fixture
def backend(monkeypatch):
    """A backend with tileir's stages, until the test ends."""
    backend = cuda_backend()
    install_fake(monkeypatch, "3.7.0", backend)
    reporting.forget()
    assert hook.install("1")
    yield backend
    hook.uninstall()


def stages(backend, text, metadata, **changed):
    """The outputs of all stages, given the text of the first."""
    own, chosen = backend(), options(**changed)
    outputs = [backend.make_ttgir(text, metadata, chosen, 90)]
    for stage in (own.make_llir, own.make_ptx, own.make_cubin):
        outputs.append(stage(outputs[-1], metadata, chosen, 90))
    return outputs


def test_a_kernel_goes_through_tileir(backend):
    metadata = {"hash": "h"}
    ttgir, llir, ptx, cubin = stages(backend, ADD, metadata)
    assert 'stage "barriers"' in str(ttgir) and "@add" in str(ttgir)
    assert "target triple" in str(llir)
    assert ".entry add" in ptx
    assert cubin[:4] == b"\x7fELF"
    assert metadata["name"] == "add"
    assert metadata["compiled_by"].startswith("tileir ")
    (record,) = reporting.report()
    assert (record.kernel, record.compiler, record.key) == ("add", "tileir", "h")


def test_metadata_have_everything_that_launchers_read(backend):
    metadata = {}
    stages(backend, LONG_ADD, metadata, num_warps=8)
    assert metadata["num_warps"] == 8
    integers = (
        "shared", "tmem_size", "global_scratch_size", "global_scratch_align",
        "profile_scratch_size", "profile_scratch_align",
    )  # fmt: skip
    assert all(type(metadata[name]) is int for name in integers)
    assert metadata["tensordesc_meta"] == []
    assert not any(name.startswith("_") for name in metadata)


@pytest.mark.parametrize("flags", [0, 1, 2])
def test_descriptors_of_the_host_are_passed_as_tritons_launcher_passes_them(monkeypatch, flags):
    backend = cuda_backend()
    install_fake(monkeypatch, "3.7.0", backend, flags)
    assert hook.install("strict")
    try:
        ptx = stages(backend, BLOCK_OF_8, {"num_ctas": 1})[2]
    finally:
        hook.uninstall()
    parameters = re.findall(r"\.param \.(\w+) ", ptx.partition(".entry")[2].partition("{")[0])
    wide = ["u64"] * 5
    assert parameters == [*wide, *["u8"] * flags, "u32", "u32", "u64", "u64", "u64"]
    assert ("__assertfail" in ptx) == (flags > 0)


def test_a_strict_hook_without_maps_refuses_descriptors_of_the_host(backend):
    hook.install("strict,no-maps")
    with pytest.raises(UnsupportedError, match="no-maps"):
        stages(backend, BLOCK_OF_8, {"num_ctas": 1})


@pytest.mark.parametrize(
    ("text", "changed", "reason"),
    [
        (FOREIGN, {}, "foreign.op"),
        (FOREIGN, {}, "user.py:4:9"),
        (ADD, {"instrumentation_mode": "consan"}, "instrumentation"),
        (ADD, {"maxnreg": 24}, "24 registers"),
        (ADD, {"enable_reflect_ftz": False}, "subnormal numbers"),
        (ADD, {"num_warps": 64}, "warps"),
        (OF_A_LIBRARY, {}, "has the function twice"),
        (DESCRIBED, {}, "no extents and strides follow %x"),
        (DESCRIBED_MATMUL, {"launch_pdl": True}, "launch_pdl"),
        ("not even a text", {}, "does not belong here"),
    ],
)
def test_what_tileir_cannot_compile_is_tritons(backend, text, changed, reason):
    metadata = {"triton_version": "3.7.0", "num_ctas": 1}
    outputs = stages(backend, text, metadata, **changed)
    assert outputs[-1] == f"cubin of ptx of llir of ttgir of {text}".encode()
    assert metadata["compiled_by"] == "triton 3.7.0"
    assert reason in metadata["tileir_reason"]
    (record,) = reporting.report()
    assert (record.compiler, record.reason) == ("triton", metadata["tileir_reason"])


def test_a_limit_above_the_registers_of_a_thread_is_all_of_them(backend):
    """As for ptxas: autotuners try 256."""
    hook.install("strict")
    for limit in (255, 256):
        assert ".maxnreg 255" in stages(backend, ADD, {"num_ctas": 1}, maxnreg=limit)[2]


@pytest.mark.parametrize("fused", [None, True, False])
def test_multiplications_and_additions_are_fused_as_the_options_say(backend, fused):
    hook.install("strict")
    text = ADD.replace(
        "%w = arith.addf %v, %v",
        "%q = arith.mulf %v, %v : tensor<64xf32>\n    %w = arith.addf %q, %v",
    )
    changed = {} if fused is None else {"enable_fp_fusion": fused}
    ptx = stages(backend, text, {"num_ctas": 1}, **changed)[2]
    assert ("fma.rn.f32" in ptx) == (fused is not False)
    assert ("mul.rn.f32" in ptx) == (fused is False)


@pytest.mark.parametrize(
    ("num_warps", "num_ctas", "expected"), [(4, 1, 4), (4, 2, 8), (8, 4, 16), (32, 2, 32)]
)
def test_a_cluster_is_one_block(backend, num_warps, num_ctas, expected):
    """Triton's launchers multiply the grid by `num_ctas` of the metadata."""
    metadata = {"num_ctas": num_ctas}
    ptx = stages(backend, LONG_ADD, metadata, num_warps=num_warps, num_ctas=num_ctas)[2]
    assert metadata["num_warps"] == expected
    assert metadata["num_ctas"] == 1
    assert f".reqntid {32 * expected}" in ptx
    assert "cluster" not in ptx


@pytest.mark.parametrize(("num_warps", "expected"), [(1, 1), (2, 2), (3, 3), (4, 2), (8, 2)])
def test_a_block_has_no_warps_that_only_duplicate_elements(
    backend, monkeypatch, num_warps, expected
):
    """The code is generated once, for the number of warps that the layouts lead to."""
    emitted = []
    emit = compiler.emit_kernel
    monkeypatch.setattr(compiler, "emit_kernel", lambda *unit: emitted.append(unit) or emit(*unit))
    metadata = {"num_ctas": 1}
    ptx = stages(backend, ADD, metadata, num_warps=num_warps)[2]
    assert metadata["num_warps"] == expected
    assert f".reqntid {32 * expected}" in ptx
    assert [unit.num_warps for unit, *_ in emitted] == [expected]


@pytest.mark.parametrize("from_cpp", [False, True])
def test_a_block_has_all_warps_if_its_launcher_reads_the_options(backend, monkeypatch, from_cpp):
    """jax-triton's launcher, whose metadata start empty, and C++ code of Inductor."""
    monkeypatch.setattr(hook_stages, "is_launched_from_cpp", lambda: from_cpp)
    metadata = {"num_ctas": 1} if from_cpp else {}
    stages(backend, ADD, metadata)
    assert metadata["num_warps"] == 4


def test_a_block_has_all_warps_if_it_may_read_their_indices(backend):
    """Inline assembly may read the index of the thread."""
    assembly = (
        '%t = tt.elementwise_inline_asm "mov.u32 $0, %tid.x;" {constraints = "=r,r", '
        "packed_element = 1 : i32, pure = false} %i : tensor<64xi32> -> tensor<64xi32> loc(#loc1)\n"
        "    %xp = tt.addptr %xs, %t"
    )
    metadata = {"num_ctas": 1}
    ptx = stages(backend, ADD.replace("%xp = tt.addptr %xs, %i", assembly), metadata)[2]
    assert metadata["num_warps"] == 4
    assert "%tid.x;" in ptx


def test_clusters_that_another_launcher_starts_are_tritons(backend):
    metadata = {}
    assert stages(backend, ADD, metadata, num_ctas=2)[-1].startswith(b"cubin of")
    assert "starts clusters of 2 blocks" in metadata["tileir_reason"]


def test_functions_are_taken_from_the_libraries_of_a_launch(backend, tmp_path):
    text = """
target triple = "nvptx64-nvidia-cuda"
define float @twice(float %x) {
  %y = fadd float %x, %x
  ret float %y
}
"""
    (tmp_path / "mine.bc").write_bytes(llvm_binding().parse_assembly(text).as_bitcode())
    (tmp_path / "other.bc").write_bytes(llvm_binding().parse_assembly("").as_bitcode())
    names = [(name, str(tmp_path / f"{name}.bc")) for name in ("other", "mine")]
    ptx = stages(backend, OF_A_LIBRARY, {}, extern_libs=tuple(names))[2]
    assert "add.rn.f32" in ptx and "twice" not in ptx.replace(".entry", "")


def test_functions_that_no_library_has_are_refused_at_their_line(backend):
    hook.install("strict")
    with pytest.raises(TileirError, match="launch the kernel with extern_libs") as caught:
        stages(backend, OF_A_LIBRARY, {})
    assert str(caught.value).startswith("user.py:4:9: ")


@pytest.mark.parametrize("from_cpp", [False, True])
def test_descriptors_of_inductors_cpp_code_are_tritons(backend, monkeypatch, from_cpp):
    """AOTInductor passes tensor maps that Triton laid out; its kernels have keys of their own."""
    source = """
class CachingAutotuner:
    def __init__(self, store):
        self.inductor_meta = {"store_cubin": store}

    def compile(self, call):
        return call()
"""
    inductor = ModuleType("torch._inductor.runtime.triton_heuristics")
    exec(source, vars(inductor))
    tuner, metadata = inductor.CachingAutotuner(from_cpp), {"num_ctas": 1}
    cubin = tuner.compile(lambda: stages(backend, BLOCK_OF_8, metadata))[-1]
    assert cubin.startswith(b"cubin of") == from_cpp
    assert ("C++ code of Inductor" in metadata["tileir_reason"]) == from_cpp
    assert (tuner.compile(lambda: backend().hash()) == backend().hash()) != from_cpp
    plain = {"num_ctas": 1}
    assert tuner.compile(lambda: stages(backend, ADD, plain))[-1][:4] == b"\x7fELF"


def test_defects_of_tileir_are_tritons_kernels_too(backend, monkeypatch):
    from tileir.frontends.triton_backend import stages as compiling

    def fail(*_, **__):
        raise KeyError("oh")

    monkeypatch.setattr(compiling, "compile_module", fail)
    metadata = {}
    assert stages(backend, ADD, metadata)[-1].startswith(b"cubin of")
    assert "a defect of tileir: KeyError" in metadata["tileir_reason"]


def test_strict_raises_at_the_line(backend):
    hook.install("strict")
    with pytest.raises(TileirError) as caught:
        stages(backend, FOREIGN, {})
    assert caught.value.line == 1 + FOREIGN[: FOREIGN.index("foreign.op")].count("\n")
    assert "user.py:4:9" in str(caught.value)


def test_strict_says_out_of_resources_as_triton_does(backend):
    from triton.runtime.errors import OutOfResources

    hook.install("strict")
    with pytest.raises(OutOfResources):
        stages(backend, ADD, {}, num_warps=64)


@pytest.mark.parametrize(("columns", "fits"), [(512, True), (1024, False)])
def test_tiles_of_twice_the_registers_are_compiled(backend, monkeypatch, columns, fits):
    """A thread of 4 warps has 512 words of a result of 512 columns. The assembler, which would
    take seconds for it, is replaced."""
    from triton.runtime.errors import OutOfResources

    from tileir.backend import assembler

    monkeypatch.setattr(assembler, "ptxas", lambda: "ptxas")
    monkeypatch.setattr(assembler, "assemble_with_ptxas", lambda *args: (args[0].encode(), ""))
    hook.install("strict")
    text = (HERE / "matmul.ttir").read_text().replace("256", str(columns))
    if fits:
        *_, ptx, _ = stages(backend, text, {}, num_warps=4, num_stages=1)
        assert "wgmma.mma_async" in ptx
    else:
        with pytest.raises(OutOfResources):
            stages(backend, text, {}, num_warps=4, num_stages=1)


@pytest.mark.parametrize(
    ("num_stages", "shared"), [(4, 4 * 49152), (5, 4 * 49152), (6, None)]
)  # a stage has 49152 bytes, and 232448 are there
def test_a_kernel_with_a_stage_too_many_has_one_less(backend, num_stages, shared):
    from triton.runtime.errors import OutOfResources

    hook.install("strict")
    text, metadata = (HERE / "matmul.ttir").read_text(), {}
    if shared is None:
        with pytest.raises(OutOfResources):
            stages(backend, text, metadata, num_warps=8, num_stages=num_stages)
    else:
        stages(backend, text, metadata, num_warps=8, num_stages=num_stages)
        assert metadata["shared"] == shared


def test_a_pattern_leaves_other_kernels(backend):
    hook.install("pattern:sub*")
    metadata = {}
    assert stages(backend, ADD, metadata)[-1].startswith(b"cubin of")
    assert "not among those asked for" in metadata["tileir_reason"]


def test_caches_distinguish_settings_and_tileir(backend):
    keys = {str(Settings.of(text)): None for text in ("1", "strict", "pattern:a")}
    for text in keys:
        hook.install(text)
        keys[text] = backend().hash()
    assert len(set(keys.values())) == 3
    assert all(key.endswith("-own") and key != "own" for key in keys.values())


def test_kernels_from_the_cache_are_in_the_report(backend):
    from triton.compiler.compiler import CompiledKernel

    backend().hash()
    fields = {"name": "old", "num_warps": 2, "hash": "k", "tileir_reason": ""}
    for _ in range(2):
        CompiledKernel(SimpleNamespace(compiled_by="tileir 0.1.0", **fields))
    CompiledKernel(SimpleNamespace(name="before", num_warps=2, hash="z"))
    (record,) = reporting.report()
    assert (record.kernel, record.compiler, record.cached) == ("old", "tileir", True)


def test_the_report_goes_to_a_file(backend, monkeypatch, tmp_path):
    monkeypatch.setenv("TILEIR_IN_TRITON_REPORT", str(tmp_path / "report.tsv"))
    stages(backend, ADD, {})
    stages(backend, ADD, {}, num_ctas=2)
    rows = [line.split("\t") for line in (tmp_path / "report.tsv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["add", "tileir"], ["add", "triton"]]


def test_another_hook_may_stand_before_and_after(monkeypatch):
    backend = cuda_backend()
    install_fake(monkeypatch, "3.6.0", backend)
    before = backend.make_llir
    backend.make_llir = lambda self, src, metadata, options, capability: (
        "inner " + before(self, src, metadata, options, capability)
    )
    assert hook.install("1")
    assert backend().make_llir("x", {}, options(), 90) == "inner llir of x"
    ours = backend.make_ptx
    backend.make_ptx = lambda self, src, metadata, opt, capability: (
        "outer " + ours(self, src, metadata, opt, capability)
    )
    outer = backend.make_ptx
    hook.uninstall()
    assert backend.make_ptx is outer
    assert backend().make_llir("x", {}, options(), 90) == "inner llir of x"
    assert backend().hash() == "own"


@pytest.mark.parametrize("version", ["3.2.0", "3.10.0", "4.0.0+git1", "", "main"])
def test_unknown_releases_are_left_untouched(monkeypatch, version):
    backend = cuda_backend()
    install_fake(monkeypatch, version, backend)
    monkeypatch.setattr(hook, "_warned", set())
    before = dict(vars(backend))
    with pytest.warns(RuntimeWarning, match="leaves Triton as it is") as caught:
        assert not hook.install("1")
        assert not hook.install("1")
    assert len(caught) == 1
    assert dict(vars(backend)) == before
    assert hook.installed_settings() is None


@pytest.mark.parametrize("version", ["3.3.1", "3.9.0", "3.6.0+cu128.git1"])
def test_known_releases_are_supported(monkeypatch, version):
    backend = cuda_backend()
    install_fake(monkeypatch, version, backend)
    assert hook.install("1")
    hook.uninstall()


def test_stages_of_another_shape_are_left_untouched(monkeypatch):
    backend = cuda_backend()
    backend.make_ptx = lambda self, src: src
    install_fake(monkeypatch, "3.8.0", backend)
    monkeypatch.setattr(hook, "_warned", set())
    with pytest.warns(RuntimeWarning, match="make_ptx"):
        assert not hook.install("1")


def test_importing_triton_never_fails_because_of_tileir(monkeypatch):
    monkeypatch.setenv("TILEIR_IN_TRITON", "1")
    monkeypatch.setattr(hook, "_warned", set())

    def fail(settings):
        raise RuntimeError("broken")

    monkeypatch.setattr(hook, "install", fail)
    with pytest.warns(RuntimeWarning, match="broken"):
        hook.install_where_asked()


def test_nothing_is_installed_unasked(monkeypatch):
    monkeypatch.delenv("TILEIR_IN_TRITON", raising=False)
    backend = cuda_backend()
    install_fake(monkeypatch, "3.7.0", backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hook.install_where_asked()
    assert hook.installed_settings() is None


def test_tritons_assembler_makes_the_cubin_where_it_is(backend, monkeypatch):
    from tileir.backend import assembler

    monkeypatch.setattr(assembler, "ptxas", lambda: "ptxas")
    monkeypatch.setattr(assembler, "assemble_with_ptxas", lambda *args: (args[0].encode(), ""))
    *_, cubin = stages(backend, ADD, {})
    assert cubin == b"ptxas"


def test_without_an_assembler_of_its_own_tritons_makes_the_cubin(backend, monkeypatch):
    from tileir.backend import assembler

    monkeypatch.setattr(assembler.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(assembler, "ptxas", lambda: None)
    assembler._library.cache_clear()
    metadata = {}
    *_, ptx, cubin = stages(backend, ADD, metadata)
    assert metadata["compiled_by"].startswith("tileir ")
    assert ".entry add" in ptx
    assert cubin == f"cubin of {ptx}".encode()
