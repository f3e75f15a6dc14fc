// How the judge makes and clears what a kernel works on, where it lies: content that differs from call to call without
// a way through the host, poison, and caches that hold nothing of it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

__device__ int64_t first() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Repeats `pattern` of `period` bytes over `target`.
extern "C" __global__ void tile(const uint8_t* pattern, int64_t period, uint8_t* target, int64_t bytes) {
    for (int64_t i = first(); i < bytes; i += stride()) target[i] = pattern[i % period];
}

/// A number from 1/2 to 1 that a value's bits and the key decide.
__device__ double factor(uint64_t bits, uint64_t key) {
    uint64_t mixed = (bits + 1) * key;
    mixed ^= mixed >> 29;
    return 0.5 + static_cast<double>((mixed * key) >> 40) * 0x1p-25;
}

#define SHRINK(name, type, word, to_float, from_float) \
    extern "C" __global__ void shrink_##name(const type* source, type* target, int64_t count, uint64_t key) { \
        const auto* bits = reinterpret_cast<const word*>(source); \
        for (int64_t i = first(); i < count; i += stride()) \
            target[i] = from_float(to_float(source[i]) * factor(bits[i], key)); \
    }
SHRINK(float64, double, uint64_t, double, double)
SHRINK(float32, float, uint32_t, double, static_cast<float>)
SHRINK(float16, __half, uint16_t, __half2float, __double2half)
SHRINK(bfloat16, __nv_bfloat16, uint16_t, __bfloat162float, __double2bfloat16)
