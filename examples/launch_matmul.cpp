// A C++ program that multiplies matrices by a kernel compiled ahead of time, which uses tensor maps.
//
//     tileir aot matmul.tir --target sm_90a --option warp_specialize=True -o .
//     g++ -O2 -I . -I $CUDA_HOME/include launch_matmul.cpp -lcuda -o launch_matmul
//     ./launch_matmul 4096 2304 64
//
// matmul.tir is what `matmul(128, 256, 64)` of matmul_builder.py returns, printed as text. The
// header `matmul.sm_90a.h` has the machine code and the functions `matmul_load` and `matmul_launch`.
// The program needs the CUDA driver only. It compares every element with a matmul on the host, and
// exits with 0 if all are equal: the elements are small integers, so that sums are exact.
#include "matmul.sm_90a.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const int64_t ROWS = 128, COLUMNS = 256;  // of the block that a program instance computes

static void check(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return;
    const char *text = "unknown error";
    cuGetErrorString(result, &text);
    std::fprintf(stderr, "%s: %s (%d)\n", call, text, (int)result);
    std::exit(1);
}

#define CHECK(call) check(call, #call)

// Integers from -2 to 2, and the same as f16.
static void fill(std::vector<int> &numbers, std::vector<uint16_t> &halves, uint32_t seed) {
    static const uint16_t bits[] = {0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000};
    for (size_t i = 0; i < numbers.size(); i++) {
        seed = seed * 1664525 + 1013904223;
        const uint32_t which = (seed >> 16) % 5;
        numbers[i] = (int)which - 2;
        halves[i] = bits[which];
    }
}

static CUdeviceptr on_device(const void *data, size_t bytes) {
    CUdeviceptr address = 0;
    CHECK(cuMemAlloc(&address, bytes));
    CHECK(cuMemcpyHtoD(address, data, bytes));
    return address;
}

int main(int count, char **words) {
    if (count != 4) {
        std::fprintf(stderr, "usage: %s M N K\n", words[0]);
        return 2;
    }
    const int64_t m = std::atoi(words[1]), n = std::atoi(words[2]), k = std::atoi(words[3]);
    std::vector<int> a(m * k), b(k * n);
    std::vector<uint16_t> a_halves(m * k), b_halves(k * n);
    fill(a, a_halves, 1);
    fill(b, b_halves, 2);
    std::vector<float> c(m * n, -1.0f);

    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(matmul_load(&module, &function));

    const CUdeviceptr x = on_device(a_halves.data(), a_halves.size() * 2);
    const CUdeviceptr y = on_device(b_halves.data(), b_halves.size() * 2);
    const CUdeviceptr z = on_device(c.data(), c.size() * 4);
    const unsigned instances = ((m + ROWS - 1) / ROWS) * ((n + COLUMNS - 1) / COLUMNS);
    // The function encodes the tensor maps. It also computes how many blocks the kernel starts.
    CHECK(matmul_launch(function, nullptr, instances, 1, 1, x, y, z, m, n, k));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(c.data(), z, c.size() * 4));

    std::vector<int> row(n);
    int64_t wrong = 0;
    for (int64_t i = 0; i < m; i++) {
        row.assign(n, 0);
        for (int64_t inner = 0; inner < k; inner++)
            for (int64_t j = 0; j < n; j++) row[j] += a[i * k + inner] * b[inner * n + j];
        for (int64_t j = 0; j < n; j++) wrong += c[i * n + j] != (float)row[j];
    }
    std::printf("%u instances, %lld of %lld elements differ\n", instances, (long long)wrong,
                (long long)(m * n));
    CHECK(cuMemFree(x));
    CHECK(cuMemFree(y));
    CHECK(cuMemFree(z));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
    return wrong != 0;
}
