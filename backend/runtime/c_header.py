"""Export of a compiled kernel as a C header that depends only on the CUDA driver API."""

from __future__ import annotations

import re

from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.metadata import KernelParameter, Metadata
from tileir.backend.runtime.c_host_plan import HELPERS, local_names, statements
from tileir.backend.runtime.version import compiler_version
from tileir.backend.tma.host_plan import HostPlan

_C_TYPES = {
    "i1": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "f8e4m3": "uint8_t", "f8e5m2": "uint8_t", "f8e8m0": "uint8_t", "f16": "uint16_t",
    "bf16": "uint16_t", "f32": "float", "f64": "double",
}  # fmt: skip
"""Floats that C lacks are passed as their bits."""

_KEYWORDS = re.compile(
    r"auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|"
    r"inline|int|long|register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|"
    r"union|unsigned|void|volatile|while|grid_[xyz]|stream|function|arguments|"
    r"alignas|alignof|and|and_eq|asm|bitand|bitor|bool|catch|char(?:8|16|32)_t|class|compl|concept|"
    r"const(?:eval|expr|init|_cast)|co_(?:await|return|yield)|decltype|delete|dynamic_cast|explicit|"
    r"export|false|friend|mutable|namespace|new|noexcept|not|not_eq|nullptr|operator|or|or_eq|"
    r"private|protected|public|reinterpret_cast|requires|static_(?:assert|cast)|template|this|"
    r"thread_local|throw|true|try|type(?:id|name|of|of_unqual)|using|virtual|wchar_t|xor|xor_eq|"
    r"linux|unix|NULL|u?int\d+_t|_[A-Z]\w*|__\w*|(?:cu[A-Z]|CU)\w*"
)
"""Words of C, of C++, and of the functions written."""


def header(compiled: CompiledKernel) -> str:
    """The text of a C header: the machine code, metadata, and functions that load it into the
    current context and launch it.

    The launch function executes the host plan; it returns CUDA_ERROR_NOT_SUPPORTED for arguments
    that tensor maps cannot describe. Raises `CompileError` if there is no machine code.
    """
    plan, host = compiled.metadata, compiled.host
    name = _identifier(plan.kernel)
    helpers = f"\n{HELPERS}\n" if host else ""
    called = re.sub(r"[^\w.$-]", "_", plan.kernel)
    guard = f"TILEIR_{name.upper()}_{plan.target.upper()}_H"
    return f"""\
/* {called} for {plan.target}, made by {compiler_version()}. */
#ifndef {guard}
#define {guard}

#include <cuda.h>
#include <stdint.h>
{helpers}
enum {{
  {name}_threads = {plan.threads}, /* of a block */
  {name}_shared = {plan.shared}, /* bytes of shared memory of a block */
  {name}_registers = {plan.registers}, /* of a thread */
  {name}_axes = {plan.axes} /* extents of the grid that the kernel looks at */
}};

static const unsigned char {name}_cubin[] __attribute__((aligned(16))) = {{
{_bytes(compiled.cubin)}
}};

{_load(name, plan)}

{_launch(name, plan, host)}

#endif
"""


def _load(name: str, plan: Metadata) -> str:
    allowed = ""
    if plan.dynamic:
        allowed = f"""
  if (!result)
    result = cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                {name}_shared);"""
    if plan.cluster[0] > 8:
        allowed += """
  if (!result)
    result = cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);"""  # noqa: E501 - a line of C
    return f"""\
/* Load the kernel into the current context. */
static inline CUresult {name}_load(CUmodule *module, CUfunction *function)
{{
  CUresult result = cuModuleLoadData(module, {name}_cubin);
  if (!result)
    result = cuModuleGetFunction(function, *module, "{plan.symbol}");{allowed}
  return result;
}}"""


def _launch(name: str, plan: Metadata, host: HostPlan | None) -> str:
    argument_names = _argument_names(name, plan, local_names(host) if host else set())
    parameters = [p for argument, word in argument_names for p in _parameters(argument, word)]
    checks = [c for argument, word in argument_names for c in _checks(argument, word)]
    declared = "".join(f",\n    {kind} {word} /* {note} */" for kind, word, note in parameters)
    checked = f"  if ({' || '.join(checks)})\n    return CUDA_ERROR_INVALID_VALUE;\n"
    shared = f"{name}_shared" if plan.dynamic else "0"
    words = [word for _, word, _ in parameters]
    cluster, grid_x, grid_yz = plan.cluster[0], "grid_x", "grid_y, grid_z"
    lines: list[str] = []
    if host is not None:
        lines.append("CUresult result;")
        if host.persistent:
            words += ["extents[0]", "extents[1]", "extents[2]"]
            lines.append("int32_t extents[] = {(int32_t)grid_x, (int32_t)grid_y, (int32_t)grid_z};")
        lines += statements(host, words)
        if host.persistent:
            lines += _persistent_grid(name, host.persistent, cluster, shared)
            grid_x, grid_yz = "(unsigned)blocks", "1, 1"
        words += [f"map{index}" for index in range(len(host.maps))]
    computed = "".join(f"  {line}\n" for line in lines)
    addresses = ", ".join(f"&{word}" for word in words) or "0"
    blocks = "" if cluster == 1 else f" * {cluster}"
    return f"""\
/* Launch it for every instance of a grid, and return at once. CUDA_ERROR_INVALID_VALUE where an
   argument differs from the one that the kernel was compiled for. */
static inline CUresult {name}_launch(
    CUfunction function, CUstream stream, unsigned grid_x, unsigned grid_y, unsigned grid_z{declared})
{{
{checked if checks else ""}\
{computed}\
  void *arguments[] = {{{addresses}}};
  return cuLaunchKernel(function, {grid_x}{blocks}, {grid_yz}, {name}_threads, 1, 1, {shared}, stream,
                        arguments, 0);
}}"""  # noqa: E501 - a line of C


def _persistent_grid(name: str, instances: int, cluster: int, shared: str) -> list[str]:
    """Lines of C that compute `blocks`: the number of blocks or clusters of a persistent kernel,
    which compute `instances` instances of the grid at once."""
    return [
        "int blocks = 0;",
        f"result = tileir_blocks_at_once(function, {cluster}, {name}_threads, {shared}, &blocks);",
        "if (result)",
        "  return result;",
        "int64_t batches = (int64_t)grid_x * grid_y * grid_z;",
        f"batches = (batches + {instances - 1}) / {instances};",
        "if (batches < blocks)",
        "  blocks = (int)batches;",
    ]


def _argument_names(
    kernel: str, plan: Metadata, used: set[str]
) -> list[tuple[KernelParameter, str]]:
    """A name for each argument, unique and not in `used`."""
    names: list[tuple[KernelParameter, str]] = []
    used_words = {f"{kernel}_threads", f"{kernel}_shared", *used}
    for argument in plan.parameters:
        word = _identifier(argument.name)
        while not used_words.isdisjoint(w for _, w, _ in _parameters(argument, word)):
            word += "_"
        used_words.update(w for _, w, _ in _parameters(argument, word))
        names.append((argument, word))
    return names


def _parameters(argument: KernelParameter, name: str) -> list[tuple[str, str, str]]:
    """The C type, the name and a comment for each value that is passed."""
    first = argument.words[0]
    if not first.endswith("*"):
        return [(_C_TYPES[first], name, first + _promises(argument))]
    parameters = [("CUdeviceptr", name, argument.type + _promises(argument))]
    rank = (len(argument.words) - 1) // 2
    for what in ("extent", "stride"):
        parameters += [("int64_t", f"{name}_{what}{d}", "in elements") for d in range(rank)]
    return parameters


def _promises(argument: KernelParameter) -> str:
    words = [
        word
        for word, applies in (
            ("read", argument.reads), ("written", argument.writes), ("atomics", argument.atomics),
            (f"multiple of {argument.multiple_of}", argument.multiple_of > 1),
            (f"aligned to {argument.aligned} bytes", argument.aligned > 1),
        )
        if applies
    ]  # fmt: skip
    return "".join(f", {word}" for word in words)


def _checks(argument: KernelParameter, name: str) -> list[str]:
    return [f"{name} % {n} != 0" for n in (argument.aligned, argument.multiple_of) if n > 1]


def _bytes(data: bytes) -> str:
    rows = (data[i : i + 24] for i in range(0, len(data), 24))
    return ",\n".join(",".join(map(str, row)) for row in rows)


def _identifier(name: str) -> str:
    """`name` as a C identifier."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{word}_" if _KEYWORDS.fullmatch(word) else f"_{word}" if word[:1].isdigit() else word
