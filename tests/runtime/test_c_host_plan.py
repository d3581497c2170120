"""Host plans as C: a C compiler's results are those of the plan in Python, and headers of kernels
with tensor maps encode the maps that the launcher makes."""

import random
import shutil
import subprocess

import pytest

from tests.builder.test_examples import example
from tests.runtime.test_aot import CUDA_H, DRIVER
from tileir.backend import compile  # noqa: A004
from tileir.backend.codegen.tma_boxes import box_of
from tileir.backend.driver.launch_plan import plan_launch
from tileir.backend.runtime.c_header import header
from tileir.backend.runtime.c_host_plan import HELPERS, statements
from tileir.backend.runtime.launch_program import ELEMENT_TYPES
from tileir.backend.tma.host_expressions import FORMULAS, HostOp
from tileir.backend.tma.host_plan import HostPlan

from .tensor_maps import EDGE_KINDS, edge_cases, plan_of_edges

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler on this machine")

MAPS_H = """
#include <stdint.h>
typedef struct { uint64_t opaque[16]; } CUtensorMap;
typedef unsigned cuuint32_t;
typedef unsigned long long cuuint64_t;
typedef int CUdevice;
typedef struct {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
} CUlaunchConfig;
enum { CUDA_ERROR_NOT_SUPPORTED = 801, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16 };
typedef enum { CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
               CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7 } CUtensorMapDataType;
typedef enum { CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
               CU_TENSOR_MAP_SWIZZLE_128B } CUtensorMapSwizzle;
typedef enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA } CUtensorMapFloatOOBfill;
enum { CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 };
CUresult cuCtxGetDevice(CUdevice *);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
CUresult cuOccupancyMaxActiveClusters(int *, CUfunction, const CUlaunchConfig *);
CUresult cuTensorMapEncodeTiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                const cuuint32_t *, int, CUtensorMapSwizzle, int,
                                CUtensorMapFloatOOBfill);
"""
MAPS_DRIVER = """
CUresult cuCtxGetDevice(CUdevice *d) { *d = 0; return 0; }
CUresult cuDeviceGetAttribute(int *n, int a, CUdevice d) { *n = 132; return 0; }
CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *c) {
  *n = 60;
  return 0;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *base, const cuuint64_t *sizes, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *steps, int interleave,
                                CUtensorMapSwizzle swizzle, int promotion,
                                CUtensorMapFloatOOBfill fill) {
  printf("map %llx", (unsigned long long)base);
  for (unsigned d = 0; d < rank; d++) printf(" %llu", sizes[d]);
  for (unsigned d = 0; d + 1 < rank; d++) printf(" %llu", strides[d]);
  for (unsigned d = 0; d < rank; d++) printf(" %u", box[d]);
  printf(" swizzle %d fill %d type %d\\n", (int)swizzle, (int)fill, (int)type);
  map->opaque[0] = (uint64_t)base;
  return 0;
}
"""

WORDS = {"sdiv": ("", "floor", "ceil"), "icmp": ("eq", "ne", "slt", "sle", "ult", "ule", "not ugt")}


def random_plan(rng, arguments, count):
    """A plan of `count` steps on numbers of the widths of its arguments: 64, 32 and 1 bits."""
    widths = {f"a{i}": (64, 32, 1)[i % 3] for i in range(arguments)}
    steps = []

    def operand(bits):
        names = [name for name, width in widths.items() if width == bits]
        if bits > 1 and rng.random() < 0.3:
            return rng.choice((0, 1, -1, 7, -(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        return rng.choice(names)

    while len(steps) < count:
        mnemonic = rng.choice(sorted(FORMULAS))
        bits, size = rng.choice((32, 64)), 1
        source = bits
        if mnemonic in ("and", "or", "xor"):
            bits = source = rng.choice((1, 32, 64))
            operands = (operand(bits), operand(bits))
        elif mnemonic in ("neg",):
            operands = (operand(bits),)
        elif mnemonic in ("sext", "zext"):
            bits, source = 64, rng.choice((1, 32))
            operands = (operand(source),)
        elif mnemonic == "trunc":
            bits, source = rng.choice(((32, 64), (1, 64), (1, 32)))
            operands = (operand(source),)
        elif mnemonic == "select":
            operands = (operand(1), operand(bits), operand(bits))
        elif mnemonic == "getelementptr":
            bits = source = 64
            base = rng.choice([name for name in widths if name in ("a0", "a3")])
            operands, size = (base, operand(32)), 4
        elif mnemonic == "icmp":
            operands, bits = (operand(source), operand(source)), 1
        else:
            operands = (operand(bits), operand(bits))
        word = rng.choice(WORDS.get(mnemonic, ("",)))
        widths[f"v{len(steps)}"] = bits
        steps.append(HostOp(mnemonic, operands, bits, source, word, size))
    return HostPlan(arguments, tuple(steps), (), ())


def numbers_of(plan, arguments):
    """The results of all steps in Python; None for a division by zero."""
    space = {f"a{i}": n for i, n in enumerate(arguments)}
    try:
        for index, step in enumerate(plan.steps):
            space[f"v{index}"] = eval(step.text, {}, space)
    except ZeroDivisionError:
        return None
    return [space[f"v{i}"] for i in range(len(plan.steps))]


@needs_cc
def test_steps_in_c_compute_what_they_do_in_python(tmp_path):
    rng = random.Random(5)
    plans = [random_plan(rng, 6, 12) for _ in range(60)]
    text = ["#include <stdint.h>", "#include <stdio.h>", "#define CUDA_ERROR_NOT_SUPPORTED 801"]
    text.append(HELPERS.split("/* A tensor map")[0])
    for index, plan in enumerate(plans):
        body = "\n  ".join(statements(plan, [f"x[{i}]" for i in range(plan.arguments)]))
        shown = "\n  ".join(f'printf(" %lld", (long long)v{i});' for i in range(len(plan.steps)))
        text.append(f"static int plan{index}(const int64_t *x)\n{{\n  {body}\n  {shown}")
        text.append('  puts("");\n  return 0;\n}')
    cases = []
    for index, plan in enumerate(plans):
        for _ in range(20):
            words = [draw(rng, (64, 32, 1)[i % 3]) for i in range(plan.arguments)]
            cases.append((index, plan, words))
    text.append("int main(void)\n{")
    for index, _, words in cases:
        listed = ", ".join(c_number(n) for n in words)
        text.append(f'  {{ int64_t x[] = {{{listed}}}; if (plan{index}(x)) puts("none"); }}')
    text.append("  return 0;\n}\n")
    (tmp_path / "main.c").write_text("\n".join(text).replace("#endif", "") + "#endif\n")
    command = [CC, "-std=c11", "-fsanitize=undefined", "-fno-sanitize-recover", "-w"]
    built = subprocess.run([*command, tmp_path / "main.c", "-o", tmp_path / "main"], check=False)
    if built.returncode:  # a compiler without this library
        subprocess.run([CC, "-w", tmp_path / "main.c", "-o", tmp_path / "main"], check=True)
    run = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    results = [numbers_of(plan, words) for _, plan, words in cases]
    assert None in results and sum(r is not None for r in results) > 500
    for line, result in zip(lines, results, strict=True):
        assert line.split() == (["none"] if result is None else list(map(str, result)))


def draw(rng, bits):
    """A number of these bits; addresses are below 2^48."""
    if bits == 64:
        return rng.choice((rng.randrange(1 << 48), rng.randrange(100), 16 * rng.randrange(1 << 30)))
    half = 1 << (bits - 1)
    return rng.randrange(2) if bits == 1 else rng.choice((rng.randrange(-half, half), 0, 3, -half))


def c_number(number):
    return "INT64_MIN" if number == -(1 << 63) else f"INT64_C({number})"


@needs_cc
@pytest.mark.parametrize("options", [{}, {"persistent": False}])
def test_a_header_encodes_the_tensor_maps_of_the_launcher(tmp_path, options):
    compiled = compile(
        example("matmul_builder").matmul(128, 256, 64),
        "sm_90a",
        options={"warp_specialize": True, **options},
    )
    host = compiled.host
    assert host is not None and len(host.maps) == 3
    (tmp_path / "cuda.h").write_text(CUDA_H + MAPS_H)
    (tmp_path / "kernel.h").write_text(header(compiled))
    driver = DRIVER.replace("int main", MAPS_DRIVER + "int main")
    (tmp_path / "main.c").write_text(driver)
    arguments = (0x100000, 0x200000, 0x300000, 4096, 1024, 512)
    refused = (*arguments[:4], 1023, 512)
    calls = [
        f"matmul_launch(function,0,128,1,1,{','.join(map(str, words))})"
        for words in (arguments, refused)
    ]
    first_map = len(arguments) + (3 if host.persistent else 0)
    defined = {
        "LOADED": "matmul_load", "CALL": calls[0], "WRONG": calls[1],
        "FORMAT": f'"%llx %d %llx\\n",*(CUdeviceptr*)a[1],*(int32_t*)a[5],'
        f"(unsigned long long)((CUtensorMap*)a[{first_map}])->opaque[0]",
    }  # fmt: skip
    flags = [f"-D{name}={value}" for name, value in defined.items()]
    command = [CC, "-std=c11", "-Wall", "-Werror", "-I", tmp_path, *flags, tmp_path / "main.c"]
    subprocess.run([*command, "-o", tmp_path / "main"], check=True)
    run = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    size = compiled.metadata.cluster[0]
    planned = plan_launch(host, (128, 1, 1), arguments, 132 if size == 1 else min(132 // size, 60))
    assert planned is not None
    maps = [line for line in lines if line.startswith("map")]
    assert maps[:3] == [text_of_map(values) for values in planned.maps]
    grid = [n * c for n, c in zip(planned.grid, compiled.metadata.cluster, strict=True)]
    position = next(i for i, line in enumerate(lines) if line.startswith("grid"))
    assert lines[position].split()[1:4] == list(map(str, grid))
    assert lines[position + 1] == f"{arguments[1]:x} 512 {arguments[0]:x}"
    assert plan_launch(host, (128, 1, 1), refused, 132) is None
    assert lines[position + 2] == "0" and lines[-1] == "801"


@needs_cc
def test_maps_at_the_bounds_of_what_the_hardware_can_have(tmp_path):
    (tmp_path / "cuda.h").write_text(CUDA_H + MAPS_H)
    text = ["#include <cuda.h>", "#include <stdio.h>", HELPERS, MAPS_DRIVER]
    cases, expected = [], []
    for element, size, rank, padding in EDGE_KINDS:
        plan, count = plan_of_edges(element, size, rank, padding), 1 + 2 * rank
        body = "\n  ".join(statements(plan, [f"x[{i}]" for i in range(count)]))
        text.append(f"static int plan{rank}(const int64_t *x)\n{{\n  CUresult result;\n  {body}")
        text.append("  return 0;\n}")
        for numbers, fits in edge_cases(size, rank):
            cases.append(f"{{{rank}, {', '.join(map(c_number, numbers))}}}")
            values = plan.map_values(numbers)
            expected.append(text_of_map(values[0]) if fits else "801")
    text.append(f"static const int64_t cases[][12] = {{{', '.join(cases)}}};")
    calls = " : ".join(f"x[0] == {rank} ? plan{rank}(x + 1)" for _, _, rank, _ in EDGE_KINDS)
    text.append(f"""int main(void) {{
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {{
    const int64_t *x = cases[i];
    int status = {calls} : 1;
    if (status) printf("%d\\n", status);
  }}
  return 0;
}}""")
    (tmp_path / "main.c").write_text("\n".join(text))
    program = tmp_path / "main"
    command = [CC, "-std=c11", "-w", "-I", tmp_path, tmp_path / "main.c", "-o", program]
    subprocess.run(command, check=True)
    run = subprocess.run([program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == expected


def text_of_map(values):
    """A map as the driver of the test prints it: innermost dimension first."""
    recipe = values.recipe
    box = box_of(recipe.block, recipe.size, recipe.swizzle)
    numbers = [*values.extents[::-1], *values.strides[::-1], *box[::-1]]
    place = f"map {values.address:x} {' '.join(map(str, numbers))} swizzle {recipe.swizzle}"
    fill, kind = int(recipe.padding != "zero"), ELEMENT_TYPES[recipe.element]
    return f"{place} fill {fill} type {kind}"
