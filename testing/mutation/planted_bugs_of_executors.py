"""Planted bugs of executors and of TTIR: bounds checks of the CPU, race detection of the
simulator."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, bugs_in

_BOUNDS = ("tests/backend/cpu/test_bounds_checks.py", "tests/backend/cpu/test_memory.py")
_THREADS = ("tests/backend/test_shadow.py", "tests/backend/test_simt.py")
_TTIR = ("tests/frontends/ttir/test_ops.py", "tests/frontends/ttir/test_older_and_rare.py")

BUGS_OF_EXECUTORS: tuple[Bug, ...] = (
    *bugs_in("backend/cpu/bounds_checks.py", _BOUNDS,
        ("rows that run down begin at their first lane",
         '            low = self.emit(f"sub i64 {low}, {reach}")\n', "            pass\n"),
        ("the last bytes of an access are not counted",
         "i64 {reach + size - 1})", "i64 {reach})"),
        ("the lanes after the first are not counted",
         "i64 {reach + size - 1})", "i64 {size - 1})"),
        ("what may be read may be written",
         "extent = self._bound(guard.record, 2 if writes else 1)",
         "extent = self._bound(guard.record, 1)"),
        ("an extent of few bytes is large",
         'f"call i64 @llvm.usub.sat.i64(i64 {extent}, i64 {reach + size - 1})"',
         'f"sub i64 {extent}, {reach + size - 1}"'),
        ("atomic stores are not checked",
         "        self._check(element.bytes, pointer, None, order.space, writes=True)\n"
         "        super().store_atomic(", "        super().store_atomic("),
        ("exchanges are not checked",
         "        self._check(element.bytes, pointer, None, order.space, writes=True)\n"
         "        return super().compare_exchange(", "        return super().compare_exchange("),
    ),
    *bugs_in("backend/simt/shadow.py", _THREADS,
        ("an atomic read after a write is ordered",
         'other = self.run[at] != run\n        self._conflict(self.changer, at[other], '
         'threads[other], "reads", "changed")', "pass"),
        ("threads of a warp are always ordered",
         "bad &= (stamp == self.clock.epoch) | (_warp(code) != threads >> _WARP)",
         "bad &= _warp(code) != threads >> _WARP"),
        ("warpgroups are never ordered",
         "bad &= (stamp >= self.clock.group) | ~together", "pass"),
        ("a barrier of warps is one of the block",
         '        """A barrier of every warp."""\n        self.epoch += 1\n',
         '        """A barrier of every warp."""\n        self.synchronize()\n'),
        ("readers of several warpgroups are of one",
         "(_group(code) == group) & (group >= 0)", "group >= 0"),
        ("readers of several warps are of one",
         "same = (_warp(code) == _warp(threads)) & (_warp(code) >= 0)", "same = _warp(code) >= 0"),
        ("a write after an atomic change is ordered",
         '        self._conflict(self.changer, at, threads, "writes", "changed")\n', ""),
        ("the same bytes of another op are the same write",
         "~same | (self.stored[at] != run)", "~same"),
        ("additions are not ordered after writes",
         "other = (seen >> _BITS < self.clock.block) | (seen & _THREAD != _ADDED)",
         "other = seen >> _BITS < self.clock.block"),
    ),
    *bugs_in("frontends/ttir/arithmetic.py", _TTIR,
        ("the least frequent value of a list is everywhere",
         "result = b.select(here, _literal(b, flat, text), result)",
         "result = b.select(here, result, _literal(b, flat, text))"),
        ("only the last place of a value is its",
         "here = one if here is None else b.or_(here, one)", "here = one"),
        ("small floats overflow to infinity",
         '        options["saturate"] = True\n', "        pass\n"),
        ("floats are rounded to the nearest always",
         'if _MODES[rounding] == "rn" else {"rounding": _MODES[rounding]}', "if True else {}"),
        ("the sign of a small float is not its highest bit",
         "bits & 0x7F if s.name == \"math.absf\" else bits ^ 0x80", "bits & 0x7F"),
        ("the quotient is rounded up", '"arith.floordivsi": ("sdiv", "floor"),',
         '"arith.floordivsi": ("sdiv", "ceil"),'),
    ),
    *bugs_in("frontends/ttir/memory.py", _TTIR,
        ("a block outside of an array is not a number",
         "math.nan if padding == _NAN else 0", "0"),
        ("volatile loads are loads", 'return {"volatile": True} if', 'return {} if'),
    ),
)  # fmt: skip
