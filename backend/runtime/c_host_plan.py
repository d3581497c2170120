"""Export of a host plan as C: statements that compute tensor maps and the grid of blocks, for a C
header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tileir.backend.codegen.tma_boxes import box_of
from tileir.backend.tma.host_expressions import HostOp, Operand, bitwise, comparison
from tileir.backend.tma.host_plan import ALIGNMENT, HostPlan, MapRecipe

HELPERS = """\
#ifndef TILEIR_HOST_PLAN
#define TILEIR_HOST_PLAN
#include <string.h>

/* The lowest bits of a number, as a signed one. */
static inline int64_t tileir_signed(uint64_t number, int bits)
{
  uint64_t half = (uint64_t)1 << (bits - 1), mask = half - 1 + half;
  return (int64_t)(((number & mask) ^ half) - half);
}

/* A quotient rounded toward zero (0), down (-1) or up (1); a division by zero sets *failed. */
static inline int64_t tileir_divide(int64_t a, int64_t b, int rounding, int *failed)
{
  if (b == 0) {
    *failed = 1;
    return 0;
  }
  if (b == -1)
    return (int64_t)(0 - (uint64_t)a);
  int64_t quotient = a / b, below = (a % b != 0) & ((a < 0) != (b < 0));
  if (rounding < 0)
    return quotient - below;
  return quotient + (rounding > 0 && a % b != 0 && !below);
}

/* A tensor map of a tensor whose numbers are given outermost dimension first, and whose strides are
   in elements. CUDA_ERROR_NOT_SUPPORTED where no map describes it. */
static inline CUresult tileir_tensor_map(
    CUtensorMap *map, CUtensorMapDataType type, int bytes, int rank, int64_t base,
    const int64_t *extents, const int64_t *strides, const cuuint32_t *box,
    CUtensorMapSwizzle swizzle, CUtensorMapFloatOOBfill fill)
{
  cuuint64_t sizes[5], distances[5] = {64};
  cuuint32_t boxes[5], steps[5];
  if (base % ALIGNMENT || strides[rank - 1] != 1)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (int d = 0; d < rank; d++) {
    int from = rank - 1 - d;
    if (extents[from] < 1 || extents[from] > (int64_t)1 << 32)
      return CUDA_ERROR_NOT_SUPPORTED;
    sizes[d] = (cuuint64_t)extents[from];
    boxes[d] = box[from];
    steps[d] = 1;
    if (d > 0) {
      int64_t stride = strides[from];
      if (stride < 1 || stride >= ((int64_t)1 << 40) / bytes || stride * bytes % ALIGNMENT)
        return CUDA_ERROR_NOT_SUPPORTED;
      distances[d - 1] = (cuuint64_t)(stride * bytes);
    }
  }
  return cuTensorMapEncodeTiled(map, type, (cuuint32_t)rank, (void *)(uintptr_t)base, sizes,
                                distances, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, fill);
}

/* Blocks, or clusters of them, that run at once. */
static inline CUresult tileir_blocks_at_once(CUfunction function, unsigned cluster,
                                             unsigned threads, unsigned shared, int *blocks)
{
  CUdevice device;
  CUresult result = cuCtxGetDevice(&device);
  if (!result)
    result = cuDeviceGetAttribute(blocks, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  if (!result && cluster > 1) {
    CUlaunchConfig config;
    int clusters = 0;
    memset(&config, 0, sizeof config);
    config.gridDimX = cluster;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = threads;
    config.sharedMemBytes = shared;
    result = cuOccupancyMaxActiveClusters(&clusters, function, &config);
    *blocks /= (int)cluster;
    if (clusters < *blocks)
      *blocks = clusters;
  }
  if (*blocks < 1)
    *blocks = 1;
  return result;
}
#endif""".replace("ALIGNMENT", str(ALIGNMENT))
"""Functions of C that the statements call. Headers of several kernels may be included together."""


def statements(plan: HostPlan, words: Sequence[str]) -> Iterator[str]:
    """Lines of C that compute the tensor maps `map0`, `map1`, ... `words` are the names of the
    values that the kernel takes; the extents of the grid come last. The lines return an error if
    the plan rejects the arguments."""
    yield "int failed = 0;"
    used = {x for s in plan.steps for x in s.operands} | set(plan.guards)
    used |= {x for m in plan.maps for x in (m.base, *m.extents, *m.strides)}
    for index, word in enumerate(words):
        if f"a{index}" in used:
            yield f"int64_t a{index} = (int64_t){word};"
    for index, step in enumerate(plan.steps):
        yield f"int64_t v{index} = {_expression(step)};"
    tests = ["failed", *(f"!{_number(guard)}" for guard in plan.guards)]
    yield f"if ({' || '.join(tests)})"
    yield "  return CUDA_ERROR_NOT_SUPPORTED;"
    for index in range(len(plan.steps)):
        if f"v{index}" not in used:
            yield f"(void)v{index};"
    for index, recipe in enumerate(plan.maps):
        yield from _map(index, recipe)


def local_names(plan: HostPlan) -> set[str]:
    """The names that the statements use, and those that the rest of a launch function uses."""
    names = {"result", "failed", "blocks", "batches", "extents"}
    names |= {f"a{i}" for i in range(plan.arguments)} | {f"v{i}" for i in range(len(plan.steps))}
    for index in range(len(plan.maps)):
        names |= {f"{word}{index}" for word in ("map", "extents", "strides", "box")}
    return names


def _map(index: int, recipe: MapRecipe) -> Iterator[str]:
    box = box_of(recipe.block, recipe.size, recipe.swizzle)
    swizzle = ("NONE", "32B", "64B", "128B")[recipe.swizzle]
    fill = "NONE" if recipe.padding == "zero" else "NAN_REQUEST_ZERO_FMA"
    yield f"CUtensorMap map{index};"
    yield f"const int64_t extents{index}[] = {{{', '.join(map(_number, recipe.extents))}}};"
    yield f"const int64_t strides{index}[] = {{{', '.join(map(_number, recipe.strides))}}};"
    yield f"const cuuint32_t box{index}[] = {{{', '.join(map(str, box))}}};"
    yield "result = tileir_tensor_map("
    yield f"    &map{index}, CU_TENSOR_MAP_DATA_TYPE_{_TYPES[recipe.element]}, {recipe.size},"
    yield f"    {len(box)}, {_number(recipe.base)}, extents{index}, strides{index}, box{index},"
    yield f"    CU_TENSOR_MAP_SWIZZLE_{swizzle}, CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill});"
    yield "if (result)"
    yield "  return result;"


_TYPES = {
    "i8": "UINT8", "f8e4m3": "UINT8", "f8e5m2": "UINT8", "i16": "UINT16", "i32": "INT32",
    "i64": "INT64", "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64",
}  # fmt: skip
"""CUtensorMapDataType of an element (cuda.h)."""


def _number(operand: Operand) -> str:
    """A number or a name in C. INT64_MIN has no literal in C."""
    if isinstance(operand, str):
        return operand
    return "INT64_MIN" if operand == -(1 << 63) else f"INT64_C({operand})"


def _expression(step: HostOp) -> str:
    return _FORMULAS[step.mnemonic](step, *map(_number, step.operands))


def _wrap(step: HostOp, text: str) -> str:
    """The expression of `text`, an unsigned 64-bit number, modulo 2^n as a signed integer."""
    return f"(int64_t)(({text}) & 1)" if step.bits == 1 else f"tileir_signed({text}, {step.bits})"


def _arithmetic(sign: str) -> Callable[..., str]:
    return lambda step, a, b: _wrap(step, f"(uint64_t){a} {sign} (uint64_t){b}")


def _zero_extension(bits: int, text: str) -> str:
    return f"((uint64_t){text} & UINT64_C({(1 << bits) - 1}))"


def _division(step: HostOp, a: str, b: str) -> str:
    rounding = {"floor": -1, "ceil": 1}.get(step.word, 0)
    return _wrap(step, f"(uint64_t)tileir_divide({a}, {b}, {rounding}, &failed)")


def _comparison(step: HostOp, a: str, b: str) -> str:
    test, is_negated = comparison(step, a, b, _zero_extension)
    return f"!({test})" if is_negated else test


_FORMULAS: Mapping[str, Callable[..., str]] = {
    "add": _arithmetic("+"), "sub": _arithmetic("-"), "mul": _arithmetic("*"),
    "and": bitwise("&"), "or": bitwise("|"), "xor": bitwise("^"),
    "smin": lambda step, a, b: f"{a} < {b} ? {a} : {b}",
    "smax": lambda step, a, b: f"{a} > {b} ? {a} : {b}",
    "sdiv": _division, "icmp": _comparison,
    "neg": lambda step, a: _wrap(step, f"0 - (uint64_t){a}"),
    "getelementptr": lambda step, p, i: (
        f"(int64_t)((uint64_t){p} + (uint64_t){i} * UINT64_C({step.size}))"
    ),
    "sext": lambda step, a: f"-{a}" if step.source == 1 else a,
    "zext": lambda step, a: f"(int64_t){_zero_extension(step.source, a)}",
    "trunc": lambda step, a: _wrap(step, f"(uint64_t){a}"),
    "select": lambda step, c, a, b: f"{c} ? {a} : {b}",
}  # fmt: skip
"""C's text for the ops that the host can compute, as `host_expressions.FORMULAS` has Python's."""
