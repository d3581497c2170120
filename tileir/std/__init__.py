"""The standard library: functions written in the IR, linked where a module declares them.

`declare i32<64> @std.get_global_range(i32)` is enough; the linker adds the definition.
Tiles have static shapes, so a library function is a template (`std.tir`): its header's types
hold variables (`$X` a type, `$N` an extent), which the declaration's types bind. Where a module
needs two instances of one function, a suffix distinguishes them: `@std.get_global_range.64`.
`function` returns an instance without a declaration:

    cdiv = tileir.std.function("cdiv", "i64", ("i64", "i64"))
"""

from __future__ import annotations

from tileir.std.library import define, function, names

__all__ = ["define", "function", "names"]
