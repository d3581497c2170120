"""Planted bugs of types, control flow and bounds in the frontends, of tensor maps and literals."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, bugs_in

BUGS_OF_TYPES: tuple[Bug, ...] = (
    *bugs_in("backend/tma/delinearize.py", ("tests/backend/test_delinearize.py",),
        ("a lower bound (rows >= 4) of a dimension without an upper bound is ignored",
         "    if not starts.keys() <= ends.keys():\n",
         "    if starts and not ends:\n"),
    ),
    *bugs_in("backend/tma/host_plan.py", ("tests/runtime/test_launch_program.py",),
        ("tensors that no tensor map describes: the ends of rows are not "
         "considered for the alignment of their chunks",
         "    steps = [*strides[:-1], extents[-1]] if strides[-1] == 1 else [1]\n",
         "    steps = [*strides[:-1]] if strides[-1] == 1 else [1]\n"),
    ),
    *bugs_in("backend/tma/modulo_to_mask.py", ("tests/backend/test_wrapped_indices.py",),
        ("wrapped rows are masked off although a store with `rows <= m` stores "
         "the first of them",
         '        b.relation == "slt" and _slack(',
         '        b.relation in ("slt", "sle") and _slack('),
        ("the mask of a load at wrapped rows is lost: it reads the columns that it excluded",
         "    if op.mask is not None:\n"
         "        inside = builder.add(And(op.mask, inside))\n",
         ""),
    ),
    *bugs_in("frontends/decoupled/causal_skip.py", (
        "tests/frontends/decoupled/test_reductions.py",
    ),
        ("under a strict causal mask, a tile that ends at the current position is not masked",
         "    return low.last < high.first if strict else low.last <= high.first\n",
         "    return low.last <= high.first\n"),
    ),
    *bugs_in("frontends/decoupled/evaluate.py", ("tests/frontends/decoupled/test_positions.py",),
        ("rmax, rmin over a ragged dimension take the zeros beyond its end into account",
         '    if place.mask is not None and not (node.op == "rsum" and '
         "node.label in result.zeroed):\n",
         "    if place.mask is not None and node.label not in result.zeroed:\n"),
    ),
    *bugs_in("frontends/decoupled/grid.py", ("tests/frontends/decoupled/test_grid.py",),
        ("with a split of map by a number that does not divide that of the "
         "blocks, blocks are left out",
         "ragged = any(",
         "ragged = all("),
    ),
    *bugs_in("frontends/triton/casting.py", ("tests/frontends/triton/test_casts.py",),
        ("a float of 2^31 or more cast to an unsigned integer is converted as to "
         "a signed one and has a wrong value",
         "    signed = old.signed if old.is_int() else to.signed\n",
         "    signed = old.signed\n"),
        ("a bf16 tensor divided by a number is computed and returned in bf16, not in float32",
         "        small = x.dtype.is_fp16() or x.dtype.is_bf16()\n",
         "        small = x.dtype.is_fp16()\n"),
    ),
    *bugs_in("frontends/triton/expressions.py", ("tests/frontends/triton/test_language.py",),
        ("the variable of a list comprehension overwrites a name of the kernel",
         "    before = dict(frame.names.bindings)\n"
         "    for item in static_items(",
         "    before = frame.names.bindings\n"
         "    for item in static_items("),
    ),
    *bugs_in("frontends/triton/language/arithmetic.py", (
        "tests/frontends/triton/test_extreme_values.py",
    ),
        ("clamp with PropagateNan.ALL returns the upper bound for a NaN",
         "    return minimum.apply(s, low, max, propagate_nan)\n",
         "    return minimum.apply(s, low, max)\n"),
    ),
    *bugs_in("frontends/triton/language/memory.py", (
        "tests/frontends/triton/test_block_bounds.py",
    ),
        ("boundary_check of a block pointer lets negative indices through, an "
         "access out of bounds",
         '            inside = semantic.logical_and(b, semantic.compare("ge")(b, '
         "at, 0), below)\n",
         "            inside = below\n"),
    ),
    *bugs_in("frontends/triton/language/reductions.py", (
        "tests/frontends/triton/test_reductions.py",
    ),
        ("argmax and argmin of equal elements return the index of a later one",
         '    beats = semantic.compare("gt" if largest else "lt")\n',
         '    beats = semantic.compare("ge" if largest else "le")\n'),
    ),
    *bugs_in("frontends/triton/semantic.py", ("tests/frontends/triton/test_mixed_types.py",),
        ("a signed tensor shifted right by an unsigned tensor gets zeros for its sign",
         "        signed = isinstance(shifted, DType) and shifted.is_int_signed()\n",
         "        signed = isinstance(shifted, DType) and kind.is_int_signed()\n"),
    ),
    *bugs_in("frontends/triton/semantic.py", ("tests/frontends/triton/test_same_types.py",),
        ("<, <=, > and >= of two conditions compare true as -1 and give the opposite",
         "        signed = isinstance(left.dtype, DType) and left.dtype.signed "
         "and not left.dtype.is_bool()\n"
         "        relation = name",
         "        signed = isinstance(left.dtype, DType) and left.dtype.signed\n"
         "        relation = name"),
    ),
    *bugs_in("frontends/triton/statements.py", ("tests/frontends/triton/test_language.py",),
        ("the statements after an unrolled loop that a break leaves are not compiled",
         "        through = through or left is not None\n",
         "        through = through or left is ast.Continue\n"),
    ),
    *bugs_in("frontends/triton_c/ctypes.py", ("tests/frontends/triton_c/test_literals.py",),
        ("unsigned char and unsigned short are not promoted to int, so that their additions wrap",
         "    return kind if kind.bits >= 32 else INT\n",
         "    return kind if kind.bits >= 32 or not kind.signed else INT\n"),
    ),
    *bugs_in("frontends/triton_c/frame.py", ("tests/frontends/triton_c/test_functions.py",),
        ("a predicate within a predicate replaces the outer one: masked lanes "
         "are loaded and stored",
         "        self.predicate = condition if before is None else "
         "self.conjunction(before, condition)\n",
         "        self.predicate = condition\n"),
    ),
    *bugs_in("frontends/triton_c/host.py", ("tests/frontends/triton_c/test_control.py",),
        ("continue in a for loop of the host skips the step, and the loop is "
         "reported as endless",
         "        except _Continue:\n"
         "            pass\n",
         "        except _Continue:\n"
         "            continue\n"),
    ),
    *bugs_in("frontends/triton_c/statements.py", ("tests/frontends/triton_c/test_control.py",),
        ("what follows an if with an else is dropped if one of both branches "
         "returns or leaves the loop",
         "    return through or other\n",
         "    return through and other\n"),
    ),
    *bugs_in("textual/literals.py", ("tests/textual/test_floats.py",),
        ("the text of a NaN literal loses its payload: reading it gives other bits",
         '        return "nan" if bits == encode(element, math.nan) else hex(bits)\n',
         "        quiet = encode(element, math.nan)\n"
         '        return "nan" if bits & quiet == quiet else hex(bits)\n'),
    ),
    *bugs_in("tileir/machine/casts.py", ("tests/ops/test_rounding.py",),
        ("large negative 64-bit integers are rounded twice when converted to "
         "bf16, also in literals that are folded",
         '    if number.dtype.kind == "i":\n'
         "        large |= number <= -limit\n",
         ""),
    ),
    *bugs_in("tileir/passes/laws/integers.py", ("tests/passes/test_law_conditions.py",),
        ("a floored division or remainder by the least integer, as -128 of i8, "
         "is simplified to a shift or mask",
         "    number = as_signed(operand)\n"
         "    return number.bit_length() - 1 if",
         "    number = bits(operand)\n"
         "    return number.bit_length() - 1 if"),
    ),
)  # fmt: skip
