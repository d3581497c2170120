"""Calls from a kernel on a CPU to Python: for instructions without native code, printing, and
failures.

A place in the code that calls Python is a site. It stores its operands in a buffer, 256 bytes for
each, calls the function `host` of the launch with the number of the site, and reads the result from
the first 256 bytes.
"""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.backend.codegen.libm.expression import Term
from tileir.backend.codegen.thread_operands import PrintedNumber
from tileir.backend.cpu.approximate import FORMULAS
from tileir.backend.cpu.checks import VALUE_BYTES
from tileir.backend.cpu.lane_values import WIDTH, Lanes, VectorValue, vector_type
from tileir.backend.cpu.launch import CpuLaunch
from tileir.backend.cpu.numbers import ArithmeticOps
from tileir.backend.cpu.regions import Bounds
from tileir.backend.simt.arithmetic import DTYPES, ptx
from tileir.errors import CompileError, Diagnostic, Location
from tileir.types import F32, I1, I8, I32, I64, Element, Pointer

Array = np.ndarray[Any, Any]


@attrs.define(eq=False)
class CallbackLog:
    """The printed lines and the failures of a launch on a grid of `extents`."""

    launch: CpuLaunch = attrs.field(factory=CpuLaunch)
    bounds: Bounds | None = None
    extents: tuple[int, int, int] = (1, 1, 1)
    printed: list[str] = attrs.field(factory=list)
    failures: list[Diagnostic] = attrs.field(factory=list)
    _lock: Any = attrs.field(factory=threading.Lock)

    def say(self, lines: list[str]) -> None:
        """Add printed lines."""
        with self._lock:
            self.printed += lines

    def in_order(self) -> list[str]:
        """The printed lines, instance by instance, as if the instances ran one after the other."""
        return sorted(self.printed, key=_instance)

    def first_failure(self) -> Diagnostic | None:
        """The failure of the first instance that failed."""
        return min(self.failures, key=lambda failure: _instance(failure.message), default=None)

    def fail(
        self, message: str, code: str = "TIR0713", location: Location | None = None
    ) -> None:  # fmt: skip
        """Record a failure of the instance that `message` begins with. That instance and later ones
        end."""
        with self._lock:
            self.failures.append(Diagnostic(code, message, location))
        x, y, _ = self.extents
        pz, py, px = _instance(message)
        self.launch.stop_at(px + x * (py + y * pz))


@attrs.frozen(eq=False)
class CallbackSite:
    """A call site: the numpy types of its operands, and its handler."""

    inputs: tuple[Any, ...]
    answer: Callable[[CallbackLog, list[Array], Array], Array | None]

    def serve(self, calls: CallbackLog, address: int) -> None:
        """Call the handler of the site on the buffer at `address`, on behalf of the code that waits
        for it."""
        size = VALUE_BYTES * (len(self.inputs) + 1)
        raw = np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), np.uint8)
        fields = [raw[VALUE_BYTES * i : VALUE_BYTES * (i + 1)] for i in range(len(self.inputs) + 1)]
        values = [
            np.array(field[: WIDTH * np.dtype(kind).itemsize].view(kind))
            for kind, field in zip(self.inputs, fields[1:], strict=True)
        ]
        try:
            results = self.answer(calls, values, np.flatnonzero(fields[0][:WIDTH]))
        except (
            Exception
        ) as error:  # an exception cannot pass through the machine code of the caller
            calls.fail(f"{type(error).__name__}: {error}")
            return
        if results is not None:
            lanes = np.ascontiguousarray(np.broadcast_to(results, (WIDTH,)))
            fields[0][: lanes.nbytes] = lanes.view(np.uint8)


class HostCallbacks(ArithmeticOps):
    """The operations of the thread interface that Python executes or refuses."""

    sites: list[CallbackSite]
    leave = "ret void"
    """The end of the function."""

    def ask(
        self, site: CallbackSite, operands: Sequence[tuple[Element, Lanes]], result: Element | None
    ) -> Lanes:
        """The result of `site` for the operands of all lanes."""
        place, size = self.fresh(), VALUE_BYTES * (len(operands) + 1)
        self.at_entry.append(f"  {place} = alloca [{size} x i8], align 64")
        active = self.cast("zext", "i1", "i8", I1, VectorValue(self.mask(self.active)))
        self.line(f"store {vector_type(I8)} {active}, ptr {place}, align 1")
        for i, (element, x) in enumerate(operands, start=1):
            kind, value = vector_type(element), self.wide(element, x)
            if element.bits < 8:
                kind, value = (
                    vector_type(I8),
                    str(self.cast("zext", f"i{element.bits}", "i8", element, VectorValue(value))),
                )
            at = self.emit(f"getelementptr i8, ptr {place}, i64 {VALUE_BYTES * i}")
            self.line(f"store {kind} {value}, ptr {at}, align 1")
        self.line(f"call void @ask(ptr %launch, i64 {len(self.sites)}, ptr {place})")
        self.sites.append(site)
        if result is None:
            return "0"
        return VectorValue(self.emit(f"load {vector_type(result)}, ptr {place}, align 1"))

    def instruction(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Lanes]]
    ) -> Lanes:
        word = text.split()[0].rstrip(";")
        name = word.split(".")[0]
        values = [x for _, x in operands]
        if ".approx" in word and name in FORMULAS:
            thread: Any = self
            return FORMULAS[name](Term(thread, F32, values[0])).handle
        if word.startswith("div.full"):
            return self.binary("fdiv", F32, values[0], values[1])
        if match := re.fullmatch(r"mul\.hi\.([su])(32|64)", word):
            return self._mul_high(match[1] == "s", result, values)
        apply = ptx(word, DTYPES[str(result)])

        def answer(_: CallbackLog, inputs: list[Array], active: Array) -> Array:
            with np.errstate(all="ignore"):
                return apply(*inputs)

        return self.ask(
            CallbackSite(tuple(_dtype(e) for e, _ in operands), answer), operands, result
        )

    def _mul_high(self, signed: bool, element: Element, values: list[Lanes]) -> Lanes:
        wide, bits = f"i{2 * element.bits}", element.bits
        a, b = (
            self.cast("sext" if signed else "zext", f"i{bits}", wide, element,
                      x if isinstance(x, str) else VectorValue(self.wide(element, x)))
            for x in values
        )  # fmt: skip
        if isinstance(a, str) and isinstance(b, str):
            high = self.emit(f"lshr {wide} {self.emit(f'mul {wide} {a}, {b}')}, {bits}")
            return self.emit(f"trunc {wide} {high} to i{bits}")
        wide_vector = f"<{WIDTH} x {wide}>"
        x, y = (self._of_width(wide, v) for v in (a, b))
        product = self.emit(f"mul {wide_vector} {x}, {y}")
        high = self.emit(f"lshr {wide_vector} {product}, splat ({wide} {bits})")
        return VectorValue(self.emit(f"trunc {wide_vector} {high} to <{WIDTH} x i{bits}>"))

    def _of_width(self, kind: str, x: Lanes) -> str:
        if not isinstance(x, str):
            return str(x)
        vector = f"<{WIDTH} x {kind}>"
        one = self.emit(f"insertelement {vector} poison, {kind} {x}, i64 0")
        return self.emit(
            f"shufflevector {vector} {one}, {vector} poison, <{WIDTH} x i32> zeroinitializer"
        )

    def effect(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Lanes]]
    ) -> Lanes:
        """Read a clock, in cycles or nanoseconds."""
        if "clock64" in text:
            self.declare("declare i64 @llvm.readcyclecounter()")
            return self.emit("call i64 @llvm.readcyclecounter()")
        site = CallbackSite((), lambda calls, inputs, active: np.array(time.time_ns()))
        return self.lane_of(I64, self.ask(site, (), I64), "0")

    # Printing and failing -----------------------------------------------------------------------

    def say(self, parts: Sequence[str | PrintedNumber]) -> None:
        texts = [p if isinstance(p, str) else (p.hexadecimal, p.unsigned) for p in parts]
        shown = [_as_64_bits(self, p) for p in parts if not isinstance(p, str)]

        def answer(calls: CallbackLog, inputs: list[Array], active: Array) -> None:
            calls.say([_line(texts, inputs, lane) for lane in active.tolist()])

        self.ask(CallbackSite(tuple(_dtype(e) for e, _ in shown), answer), shown, None)

    def fail(self, message: str, file: str, line: int) -> None:
        place = f"{file}:{line}: " if file else ""
        thread: Any = self
        ids = [(I32, thread.program_id(axis)) for axis in range(3)]

        def answer(calls: CallbackLog, inputs: list[Array], active: Array) -> None:
            calls.fail(f"{instance_of(inputs)} {place}{message}")

        self.ask(CallbackSite(tuple(_dtype(e) for e, _ in ids), answer), ids, None)

    def trap(self) -> None:
        self.line(self.leave)
        self.start(self.fresh_label("dead"))

    def poll(self) -> None:
        """Return from the kernel if the launch is to end."""
        look, leave, on = (self.fresh_label(x) for x in ("look", "leave", "on"))
        now = self.emit("load volatile i64, ptr %launch")
        due = self.emit(f"icmp sle i64 {now}, %index")
        self.line(f"br i1 {due}, label %{look}, label %{on}")
        self.start(look)
        leaves = self.emit("call i1 @attend(ptr %launch, i64 %index)")
        self.line(f"br i1 {leaves}, label %{leave}, label %{on}")
        self.start(leave)
        self.line(self.leave)
        self.start(on)

    def assembly(
        self, text: str, constraints: str, results: Sequence[Element], operands: Any, *,
        pack: int, pure: bool,
    ) -> list[list[Lanes]]:  # fmt: skip
        raise CompileError(Diagnostic("TIR0706", "inline_asm is PTX, which a CPU does not run"))

    def external(self, symbol: str, result: Element, operands: Any, *, pure: bool) -> Lanes:
        raise CompileError(Diagnostic("TIR0706", f"{symbol} is available on a GPU only"))


def instance_of(ids: Sequence[Array]) -> str:
    """The name of the instance with these program ids, which are the same in all lanes."""
    return f"({', '.join(str(int(n[0])) for n in ids)})"


def _instance(line: str) -> tuple[int, int, int]:
    """The position in the grid of the instance whose name a line begins with; x varies fastest."""
    match = re.match(r"\((\d+), (\d+), (\d+)\)", line)
    return (0, 0, 0) if match is None else (int(match[3]), int(match[2]), int(match[1]))


def _dtype(element: Element) -> Any:
    return np.int64 if isinstance(element, Pointer) else DTYPES[element.name]


def _as_64_bits(thread: ArithmeticOps, part: PrintedNumber) -> tuple[Element, Lanes]:
    """A number converted to 64 bits, as `print` passes it to Python."""
    element = part.element
    if isinstance(element, Pointer):
        kind, pointer = (
            vector_type(I64),
            f"{vector_type(element)} {thread.wide(element, part.handle)}",
        )
        return I64, VectorValue(thread.emit(f"ptrtoint {pointer} to {kind}"))
    if element.is_float:
        return element, part.handle
    if element is I64:
        return I64, part.handle
    return I64, thread.convert(part.extension, element, I64, part.handle)


def _line(texts: Sequence[str | tuple[bool, bool]], inputs: list[Array], lane: int) -> str:
    numbers, words = iter(inputs), list[str]()
    for text in texts:
        if isinstance(text, str):
            words.append(text)
            continue
        value = next(numbers)[lane]
        if value.dtype.kind == "f":
            words.append(f"{value:.9g}")
        else:
            hexadecimal, unsigned = text
            number = int(value) & (1 << 64) - 1 if hexadecimal or unsigned else int(value)
            words.append(hex(number) if hexadecimal else str(number))
    return "".join(words)
