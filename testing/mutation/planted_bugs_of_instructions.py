"""Planted bugs of the semantics of instructions (numbers of C and TTIR, `redux.sync`, atomic
accesses, conversions), of races between instances, and of the processes that generate code."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, bugs_in

_C = "tests/frontends/triton_c/test_language.py::"
_NUMBERS = (f"{_C}test_numbers_are_those_of_c",)
_SHIFTS = (f"{_C}test_numbers_are_shifted_by_fewer_than_their_bits",)
_POINTERS = (f"{_C}test_a_pointer_moves_by_an_unsigned_number_of_elements",)
_FILLED = (f"{_C}test_a_number_where_a_load_is_masked_off_is_given_by_the_load",)
_OLDER = "tests/frontends/ttir/test_older_and_rare.py::"
_TTIR = (
    f"{_OLDER}test_precise_functions_are_rounded_correctly",
    f"{_OLDER}test_negations_of_8_bit_floats",
)
_TTIR_MEMORY = (
    f"{_OLDER}test_block_pointers_move_back",
    f"{_OLDER}test_eviction_policies_are_those_of_the_text",
)
_REDUX = (
    "tests/backend/test_reductions.py::test_a_warp_reduces_words_by_one_instruction",
    "tests/backend/test_reductions.py::test_other_reductions_are_by_shuffles",
)
_ORDER = ("tests/backend/test_memory_order.py",)
_RACES = (
    "tests/interp/test_races.py::test_accesses_of_two_epochs_are_distinguished",
    "tests/interp/test_races.py::test_reads_of_what_is_never_written_do_not_pile_up",
)
_INSTANCES = (
    "tests/backend/test_instance_races.py"
    "::test_accesses_that_are_not_aligned_race_in_the_bytes_they_share",
)
_NEAR = "tests/backend/test_near_conversions.py::"
_CONVERSIONS = (
    f"{_NEAR}test_registers_of_padding_are_taken_from_anywhere",
    f"{_NEAR}test_what_is_staged_in_several_passes_waits_for_all_warps",
)
_OFFSETS = ("tests/backend/test_split_offsets.py",)
_WORKERS = (
    "tests/limits/test_isolation.py::test_an_error_shows_what_the_request_that_failed_wrote",
    "tests/limits/test_isolation.py::test_the_time_limit_is_not_of_the_start",
)
_STORED = (
    "tests/backend/test_stored_operands.py"
    "::test_warps_that_are_no_whole_warpgroups_compute_nothing",
)
_PADDING = ("tests/frontends/triton_backend/test_launcher.py::test_each_padding_has_a_version",)

BUGS_OF_INSTRUCTIONS: tuple[Bug, ...] = (
    *bugs_in("frontends/triton_c/numbers.py", _NUMBERS,
        ("1 / -0.0 is positive", "return x * math.copysign(math.inf, y)", "return x * math.inf"),
    ),
    *bugs_in("frontends/triton_c/numbers.py", _SHIFTS,
        ("numbers are shifted by 64", "if not 0 <= y < 64:", "if not 0 <= y <= 64:"),
    ),
    *bugs_in("frontends/triton_c/values.py", _NUMBERS,
        ("NaN is not different from NaN", '"une" if name == "ne"', '"one" if name == "ne"'),
        ("every number fits an unsigned type",
         "fits = not kind.signed and 0 <= number < 1 << kind.bits", "fits = not kind.signed"),
    ),
    *bugs_in("frontends/triton_c/values.py", _POINTERS,
        ("every index has 32 bits",
         "wide = index.kind if index.kind in (ctypes.INT, ctypes.LONG) else ctypes.LONG",
         "wide = ctypes.INT"),
    ),
    *bugs_in("frontends/triton_c/expressions.py", _FILLED,
        ("loads give no whole numbers instead",
         "return isinstance(number, int) and values.as_kind(number, kind) == number",
         "return False"),
    ),
    *bugs_in("frontends/ttir/arithmetic.py", _TTIR,
        ("precise division is approximate",
         '{"arith.divf", "tt.approx_divf",', '{"arith.divf", "tt.approx_divf", "tt.precise_divf",'),
        ("the negation of an f8 is negative", "else bits ^ 0x80", "else bits | 0x80"),
    ),
    *bugs_in("frontends/ttir/memory.py", _TTIR_MEMORY,
        ("block pointers move forward only",
         "return f.b.sext(x, I64) if x.type is I32 else x",
         "return f.b.zext(x, I64) if x.type is I32 else x"),
        ("lines to keep are evicted first", '"evict_last": "last"', '"evict_last": "first"'),
    ),
    *bugs_in("backend/codegen/emit/reduction.py", _REDUX,
        ("rows that share a warp are one",
         "if len(masks) == _LANE_BITS else None", "if len(masks) >= 4 else None"),
        ("words have 64 bits",
         "element.bits not in (1, 8, 16, 32)", "element.bits not in (1, 8, 16, 32, 64)"),
        ("bits are added as words",
         "if element.bits == 1 and op.combiner not in _OF_BITS:", "if False:"),
    ),
    *bugs_in("backend/nvptx/thread.py", _REDUX,
        ("the least of signed numbers is that of unsigned ones", '"smin": "min"', '"smin": "umin"'),
        ("short signed numbers lose their signs",
         '"sext" if combiner.startswith("s") else "zext"', '"zext"'),
    ),
    *bugs_in("backend/nvptx/atomics.py", _ORDER,
        ("LLVM may move accesses over atomic ones",
         '(*outputs, *inputs, "~{memory}")', "(*outputs, *inputs)"),
    ),
    *bugs_in("tileir/interp/races.py", _RACES,
        ("all accesses of an op by an instance are of one epoch",
         "return self.instance == instance and self.epoch == epoch",
         "return self.instance == instance"),
        ("reads are kept for ever", "                self._shadow(read, logs[0].size)",
         "                pass"),
    ),
    *bugs_in("backend/simt/instances.py", _INSTANCES,
        ("every access is aligned",
         "if size not in (1, 2, 4, 8) or (index % size).any():", "if size not in (1, 2, 4, 8):"),
        ("errors name another program",
         "return number % x, number // x % y, number // (x * y)",
         "return number // y % x, number % y, number // (x * y)"),
    ),
    *bugs_in("backend/shared_memory/conversion_plan.py", _CONVERSIONS,
        ("registers of padding have a place",
         "if register is None and all(a < n for a, n in zip(coordinate, shape, strict=True)):",
         "if register is None:"),
        ("several passes wait for no other warp",
         "if plan.iterations > 1 or source_layout", "if source_layout"),
    ),
    *bugs_in("backend/transforms/split_offsets.py", _OFFSETS,
        ("offsets of 32 bits do not wrap", "or element_of(op.index.type) is not I64", "or False"),
    ),
    *bugs_in("backend/worker_pool.py", _WORKERS,
        ("errors show what an earlier request wrote", "            self._clear()\n", ""),
        ("the start of a worker counts",
         "seconds and seconds + (0 if self._started else _STARTING)", "seconds and seconds"),
    ),
    *bugs_in("backend/software_pipeline/stored_operands.py", _STORED,
        ("six warps are warpgroups", "if warps % WARPS:", "if warps < WARPS:"),
    ),
    *bugs_in("frontends/triton_backend/launcher.py", _PADDING,
        ("all paddings have one version",
         "if (nan, multiples) not in self._variants:",
         "if (frozenset(), multiples) not in self._variants:"),
    ),
)  # fmt: skip
