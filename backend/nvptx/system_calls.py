"""System calls of a thread, as LLVM IR text for NVPTX: printing and assertions; also inline
assembly and external functions.

Every kernel may call the system functions `vprintf` and `__assertfail` (CUDA C++ Programming Guide,
"Formatted Output" and "Assertion"; NVPTX, "System calls").
"""

from __future__ import annotations

from collections.abc import Sequence

from tileir.backend.codegen.thread_operands import PrintedNumber
from tileir.backend.nvptx.memory import LlvmMemory
from tileir.backend.nvptx.text import global_name, llvm_type
from tileir.types import F32, F64, I32, I64, Element, Pointer

Handle = str


class LlvmOutside(LlvmMemory):
    """The methods of the thread interface for printing, failing, inline assembly and external
    functions."""

    def global_address(self, kind: Pointer, name: str) -> Handle:
        return f"@{self.scope}{global_name(name)}"

    def say(self, parts: Sequence[str | PrintedNumber]) -> None:
        form, arguments = "", list[tuple[str, Handle]]()
        for part in parts:
            if isinstance(part, str):
                form += part.replace("%", "%%")
                continue
            word, kind, handle = self._printf_operand(part)
            form += word
            arguments.append((kind, handle))
        self.declare("declare i32 @vprintf(ptr, ptr)")
        text, packed = self._text(form + "\n"), self._argument_buffer(arguments)
        self.line(f"call i32 @vprintf(ptr {text}, ptr {packed})")

    def _printf_operand(self, part: PrintedNumber) -> tuple[str, str, Handle]:
        """The printf conversion of a number, and its LLVM type and value as a printf argument."""
        element, x = part.element, part.handle
        if isinstance(element, Pointer):
            return "0x%llx", "i64", self.emit(f"ptrtoint {llvm_type(element)} {x} to i64")
        if element.is_float:
            wide = x if element is F64 else self.emit(f"fpext float {x} to double")
            return ("%.9g" if element is F32 else "%.17g"), "double", wide
        long = "ll" if element is I64 else ""
        kind = "i64" if element is I64 else "i32"
        if element not in (I32, I64):
            x = self.emit(f"{part.extension} {llvm_type(element)} {x} to i32")
        letter = "x" if part.hexadecimal else "u" if part.unsigned else "d"
        return f"{'0x' if part.hexadecimal else ''}%{long}{letter}", kind, x

    def _argument_buffer(self, arguments: Sequence[tuple[str, Handle]]) -> Handle:
        """The arguments of printf, packed in local memory."""
        if not arguments:
            return "null"
        kind = f"{{{', '.join(k for k, _ in arguments)}}}"
        place = self.fresh()
        with self.keeping():
            self.at_entry.append(f"  {place} = alloca {kind}, align 8")
        for i, (each, x) in enumerate(arguments):
            at = self.emit(f"getelementptr {kind}, ptr {place}, i32 0, i32 {i}")
            self.line(f"store {each} {x}, ptr {at}")
        return place

    def _text(self, text: str) -> Handle:
        """The address of a zero-terminated text."""
        import hashlib  # a slow import (OpenSSL), needed only by kernels that print or assert

        raw = text.encode() + b"\0"
        name = f"@text.{hashlib.sha256(raw).hexdigest()[:16]}"
        escaped = "".join(
            chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in raw
        )
        kind = f"[{len(raw)} x i8]"
        self.declare(f'{name} = internal addrspace(1) constant {kind} c"{escaped}"')
        return f"addrspacecast (ptr addrspace(1) {name} to ptr)"

    def fail(self, message: str, file: str, line: int) -> None:
        self.declare("declare void @__assertfail(ptr, ptr, i32, ptr, i64) noreturn")
        texts = [self._text(t) for t in (message, file, "kernel")]
        self.line(
            f"call void @__assertfail(ptr {texts[0]}, ptr {texts[1]}, i32 {line}, "
            f"ptr {texts[2]}, i64 1)"
        )

    def assembly(
        self, text: str, constraints: str, results: Sequence[Element],
        operands: Sequence[tuple[Element, Sequence[Handle]]], *, pack: int, pure: bool,
    ) -> list[list[Handle]]:  # fmt: skip
        types = [w for e in results for w in _word_types(e, pack)]
        packed = [word for e, values in operands for word in self._words(e, values)]
        words = self._asm_call(text, constraints, types, packed, pure)
        outputs: list[list[Handle]] = []
        for element in results:
            count = len(_word_types(element, pack))
            outputs.append(self._elements_of(element, pack, words[:count]))
            words = words[count:]
        return outputs

    def _asm_call(
        self, text: str, constraints: str, results: Sequence[Element],
        operands: Sequence[tuple[Element, Handle]], pure: bool,
    ) -> list[Handle]:  # fmt: skip
        kinds = [llvm_type(e) for e in results]
        kind = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
        arguments = ", ".join(f"{llvm_type(e)} {x}" for e, x in operands)
        word, attributes = ("", "#2") if pure else ("sideeffect ", "#1")
        call = (
            f'call {kind} asm {word}"{_escape(text)}", "{_escape(constraints)}"'
            f"({arguments}) {attributes}"
        )
        if not kinds:
            self.line(call)
            return []
        structure = self.emit(call)
        if len(kinds) == 1:
            return [structure]
        return [self.emit(f"extractvalue {kind} {structure}, {i}") for i in range(len(kinds))]

    def _words(self, element: Element, values: Sequence[Handle]) -> list[tuple[Element, Handle]]:
        each, size = _together(element, len(values)), element.bytes * 8
        if each == 1:
            return [(element, x) for x in values]
        words: list[tuple[Element, Handle]] = []
        for start in range(0, len(values), each):
            total = "0"
            for i, x in enumerate(values[start : start + each]):
                (word,) = self.to_words(element, x)
                shifted = self.emit(f"shl i32 {word}, {size * i}")
                total = self.emit(f"or i32 {total}, {shifted}")
            words.append((I32, total))
        return words

    def _elements_of(self, element: Element, pack: int, words: list[Handle]) -> list[Handle]:
        each, size = _together(element, pack), element.bytes * 8
        if each == 1:
            return words
        parts = [self.emit(f"lshr i32 {w}, {size * i}") for w in words for i in range(each)]
        return [self.from_words(element, [part]) for part in parts]

    def external(
        self,
        symbol: str,
        result: Element,
        operands: Sequence[tuple[Element, Handle]],
        *,
        pure: bool,
    ) -> Handle:
        kind, kinds = llvm_type(result), [llvm_type(e) for e, _ in operands]
        self.declare(f"declare {kind} @{symbol}({', '.join(kinds)})")
        arguments = ", ".join(f"{k} {x}" for k, (_, x) in zip(kinds, operands, strict=True))
        return self.emit(f"call {kind} @{symbol}({arguments}) {'#2' if pure else '#1'}")


def _escape(text: str) -> str:
    """`text` with the escapes of LLVM's quoted strings."""
    return "".join(c if " " <= c < "\x7f" and c not in '"\\' else f"\\{ord(c):02X}" for c in text)


def _together(element: Element, pack: int) -> int:
    """The number of elements that share a register."""
    return max(1, min(pack, 4 // element.bytes))


def _word_types(element: Element, pack: int) -> list[Element]:
    each = _together(element, pack)
    return [element if each == 1 else I32] * (pack // each)
