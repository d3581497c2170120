"""Entrances of long kernels: where they are, what they lead to, and what the assembler takes."""

import re

import pytest

from tests.backend.test_scaling import accesses, branches, module, reductions
from tileir.backend import compile as compile_kernel
from tileir.backend.nvptx import llvm_codegen, ptxas_entry_points
from tileir.backend.nvptx.ptxas_entry_points import break_dominator_chains

PTX = """.version 8.1
.target sm_90
.address_size 64

.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<8>;
	.reg .b64 	%rd<3>;

	ld.param.b64 	%rd1, [k_param_0];
BODY
	ret;

}
"""

LOAD = """	// begin inline asm
	mov.b32 %r1, %r2; @%p1 ld.global.b32 %r1, [%rd1];
	// end inline asm"""

STORE = """	// begin inline asm
	@%p1 st.global.b32 [%rd1], %r1;
	// end inline asm"""


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Every kernel is long."""
    monkeypatch.setattr(llvm_codegen, "_LONG", 0)
    monkeypatch.setattr(ptxas_entry_points, "_MANY", 0)
    monkeypatch.setattr(ptxas_entry_points, "_LEAST_DISTANCE", 1)


def break_chains_in(*body):
    return break_dominator_chains(PTX.replace("BODY", "\n".join(body)))


def before(ptx):
    """The line after each entrance."""
    return re.findall(r"^\$entrance_\d+:\n(.*)", ptx, re.MULTILINE)


def test_an_entrance_is_after_every_block_and_branches_lead_there():
    ptx = break_chains_in(
        STORE, "\tadd.s32 \t%r1, %r1, 1;", STORE, "\tadd.s32 \t%r2, %r2, 1;", STORE
    )
    assert before(ptx) == ["\tadd.s32 \t%r1, %r1, 1;", "\tadd.s32 \t%r2, %r2, 1;", "\tret;"]
    targets = set(re.findall(r"bra\.uni (\$entrance_\d+);", ptx))
    assert targets == set(re.findall(r"^(\$entrance_\d+):", ptx, re.MULTILINE))


def test_code_that_is_entered_as_usual_is_the_same():
    body = (STORE, "\tadd.s32 \t%r1, %r1, 1;", STORE)
    ptx = break_chains_in(*body)
    rest = ptx[ptx.index("$entered:") :]
    assert re.sub(r"\$ent\w+:\n", "", rest) == "\n".join(
        ["\tld.param.b64 \t%rd1, [k_param_0];", *body, "\tret;", "", "}", ""]
    )


@pytest.mark.parametrize(
    "skipped",
    [
        ("\t@%p1 bra \t$L_1;", "\tadd.s32 \t%r1, %r1, 1;", "$L_1:"),
        ("$L_1:", "\tadd.s32 \t%r1, %r1, 1;", STORE, "\tmov.b32 \t%r2, %r1;", "\t@%p1 bra \t$L_1;"),
        (STORE, "\t{ // callseq 0, 0", "\tadd.s32 \t%r1, %r1, 1;", "\t} // callseq 0"),
    ],
)
def test_nothing_enters_what_a_branch_skips_or_braces_enclose(skipped):
    ptx = break_chains_in(*skipped, STORE, "\tadd.s32 \t%r3, %r3, 1;")
    assert before(ptx)
    assert not {"\tadd.s32 \t%r1, %r1, 1;", "\tmov.b32 \t%r2, %r1;"} & set(before(ptx))


def test_entrances_are_as_distant_as_requested(monkeypatch):
    monkeypatch.setattr(ptxas_entry_points, "_LEAST_DISTANCE", 3)
    assert len(before(break_chains_in(*[STORE, "\tadd.s32 \t%r1, %r1, 1;"] * 10))) == 3


def test_loads_read_zeros_where_their_predicate_is_false():
    ptx = break_chains_in(LOAD)
    assert (
        "\tselp.b64 %near, %rd1, %zeros, %p1; ld.global.b32 %r1, [%near];"
        " selp.b32 %r1, %r1, %r2, %p1;\n"
    ) in ptx
    assert "\n.global .align 32 .b8 $zeros[32];\n" in ptx


def test_policies_and_vectors_of_loads_stay():
    load = (
        "\tmov.b32 %r1, %r2; mov.b32 %r3, %r4; @%p1 ld.global.nc.L1::evict_first.L2::cache_hint"
        ".v2.b32 {%r1, %r3}, [%rd1], %rd2;"
    )
    assert (
        "\tselp.b64 %near, %rd1, %zeros, %p1; ld.global.nc.L1::evict_first.L2::cache_hint.v2.b32"
        " {%r1, %r3}, [%near], %rd2; selp.b32 %r1, %r1, %r2, %p1; selp.b32 %r3, %r3, %r4, %p1;"
    ) in break_chains_in(load)


@pytest.mark.parametrize(
    "load",
    [
        "\tmov.b32 %r1, %r1; @%p1 ld.global.b32 %r1, [%rd1];",
        "\t@%p1 ld.volatile.global.b32 %r1, [%rd1];",
        "\t@%p1 ld.shared.b32 %r1, [%r2];",
    ],
)
def test_loads_into_what_they_fall_back_to_and_from_elsewhere_stay(load):
    assert load in break_chains_in(load)


@pytest.mark.parametrize("word", ["brx.idx %r1, $table;", "wgmma.fence.sync.aligned;"])
def test_tables_of_branches_and_dots_in_flight_keep_a_kernel_whole(word):
    ptx = PTX.replace("BODY", f"{LOAD}\n\t{word}")
    assert break_dominator_chains(ptx) == ptx


def test_few_blocks_keep_a_kernel_whole(monkeypatch):
    monkeypatch.setattr(ptxas_entry_points, "_MANY", 2)
    ptx = PTX.replace("BODY", f"{LOAD}\n{STORE}")
    assert break_dominator_chains(ptx) == ptx
    assert break_dominator_chains(ptx + ptx.replace(STORE, "").replace("k", "l")) != ptx


@pytest.mark.parametrize(("shape", "warps"), [(accesses, 4), (branches, 1), (reductions, 4)])
def test_the_assembler_takes_kernels_with_entrances(shape, warps):
    compiled = compile_kernel(module(shape, 12), "sm_90", {"num_warps": warps})
    assert "$entrance_0" in compiled.ptx
    assert compiled.machine_code.cubin
