// What the judge and its workers run on a GPU beside the kernels they judge.
#include <cstdint>

__device__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/// Holds the device for a while. Launched with as many threads as fit it lets no other kernel start, so that launches
/// queue up behind it and nothing runs ahead of them on another stream.
extern "C" __global__ void __launch_bounds__(1024, 2) hold(uint64_t duration) {
    const uint64_t end = nanoseconds() + duration;
    while (nanoseconds() < end) {
    }
}

extern "C" __global__ void read_all(const uint4* source, int64_t count, uint32_t* sink) {
    uint32_t mixed = 0;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        const uint4 a = source[i], b = source[i + stride], c = source[i + 2 * stride], d = source[i + 3 * stride];
        mixed ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    if (mixed == 0x12345678) *sink = mixed;
}

extern "C" __global__ void copy_all(const uint4* source, uint4* target, int64_t count) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        const uint4 a = source[i], b = source[i + stride], c = source[i + 2 * stride], d = source[i + 3 * stride];
        target[i] = a, target[i + stride] = b, target[i + 2 * stride] = c, target[i + 3 * stride] = d;
    }
}

/// Independent chains of multiply-adds, 2 * CHAINS * `rounds` operations a thread.
template <typename T, int CHAINS>
__device__ void multiply_add(T* sink, T factor, int rounds) {
    T values[CHAINS];
    for (int i = 0; i < CHAINS; ++i) values[i] = static_cast<T>(threadIdx.x + i);
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) values[i] = values[i] * factor + static_cast<T>(1);
    T sum = 0;
    for (int i = 0; i < CHAINS; ++i) sum += values[i];
    if (sum == static_cast<T>(-1)) *sink = sum;
}

extern "C" __global__ void __launch_bounds__(512) multiply_add_float32(float* sink, float factor, int rounds) {
    multiply_add<float, 16>(sink, factor, rounds);
}

extern "C" __global__ void __launch_bounds__(512) multiply_add_float64(double* sink, double factor, int rounds) {
    multiply_add<double, 16>(sink, factor, rounds);
}

// ------------------------------------------------------------------------------------------------- matrix units
// Rates of the units that multiply tiles of narrow floats into float32. What is multiplied has no meaning; it is not
// zero, since zeros draw less power and let the clock run higher than any real product does.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TILES_OF_SHARED_MEMORY
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && (__CUDA_ARCH__ < 1000 || __CUDA_ARCH__ >= 1200)
#define TILES_OF_REGISTERS
#endif

/// A number between -1 and 1 that differs from place to place, as bits of the type.
__device__ uint32_t mixed(uint32_t place) {
    place = (place ^ (place >> 15)) * 0x2c1b3c6du;
    place = (place ^ (place >> 12)) * 0x297a2d39u;
    return place ^ (place >> 15);
}
__device__ uint32_t pair_of(uint32_t place, uint32_t one) {
    const uint32_t bits = mixed(place);  // signs and fractions at random, exponents of one half
    return (bits & 0x807f807fu) | one;
}
__device__ uint32_t operand_bfloat16(uint32_t place) { return pair_of(place, 0x3f003f00u); }
__device__ uint32_t operand_float16(uint32_t place) { return (mixed(place) & 0x83ff83ffu) | 0x38003800u; }
__device__ uint32_t operand_tf32(uint32_t place) { return (mixed(place) & 0x807fe000u) | 0x3f000000u; }

#ifdef TILES_OF_SHARED_MEMORY
constexpr int GROUPS = 2, ROWS = 64, COLUMNS = 256, ROW_BYTES = 128, STEPS = 4;
constexpr int TILE_A = ROWS * ROW_BYTES, TILE_B = COLUMNS * ROW_BYTES;

/// Of a tile whose rows of 128 bytes lie in groups of eight, swizzled by 128 bytes: address, distance of the groups.
__device__ uint64_t descriptor(const void* tile) {
    const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
    return ((address & 0x3ffff) >> 4) | (uint64_t{1} << 16) | (uint64_t{8 * ROW_BYTES >> 4} << 32) | (uint64_t{1} << 62);
}

#define EIGHT(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
                 "+f"(d[i + 6]), "+f"(d[i + 7])
#define SIXTY_FOUR(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24), EIGHT(i + 32), EIGHT(i + 40), \
                      EIGHT(i + 48), EIGHT(i + 56)
#define ACCUMULATORS \
    "{" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
    "}"
#define MULTIPLY_TILES(shape_and_types, transposes) \
    asm volatile("wgmma.mma_async.sync.aligned." shape_and_types " " ACCUMULATORS ", %128, %129, 1, 1, 1" transposes ";" \
                 : SIXTY_FOUR(0), SIXTY_FOUR(64) : "l"(a), "l"(b))

#define MATRIX_PEAK(dtype, shape_and_types, transposes) \
    struct Tiles_##dtype { \
        static __device__ uint32_t operand(uint32_t place) { return operand_##dtype(place); } \
        static __device__ void multiply(float (&d)[128], uint64_t a, uint64_t b) { \
            MULTIPLY_TILES(shape_and_types, transposes); \
        } \
    };

/// Each group of four warps adds `rounds` * STEPS products of 64 x 256 to its own accumulators.
template <typename Tiles>
__device__ void multiply_tiles(float* sink, int rounds) {
    extern __shared__ __align__(1024) unsigned char memory[];
    auto* words = reinterpret_cast<uint32_t*>(memory);
    for (int i = threadIdx.x; i < (GROUPS * TILE_A + TILE_B) / 4; i += blockDim.x) words[i] = Tiles::operand(i);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const uint64_t a = descriptor(memory + threadIdx.x / 128 * TILE_A), b = descriptor(memory + GROUPS * TILE_A);
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0;
    for (int round = 0; round < rounds; ++round) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < STEPS; ++step) Tiles::multiply(d, a + 2 * step, b + 2 * step);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 128; ++i) sum += d[i];
    if (sum == 12345.678f) *sink = sum;
}

MATRIX_PEAK(bfloat16, "m64n256k16.f32.bf16.bf16", ", 0, 0")
MATRIX_PEAK(float16, "m64n256k16.f32.f16.f16", ", 0, 0")
MATRIX_PEAK(tf32, "m64n256k8.f32.tf32.tf32", "")
#endif

#ifdef TILES_OF_REGISTERS
constexpr int CHAINS = 8;
#define MATRIX_PEAK(dtype, shape_and_types) \
    struct Tiles_##dtype { \
        static __device__ uint32_t operand(uint32_t place) { return operand_##dtype(place); } \
        static __device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { \
            asm volatile("mma.sync.aligned." shape_and_types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
        } \
    };

/// Each warp adds `rounds` * CHAINS products of 16 x 8 to its own accumulators.
template <typename Tiles>
__device__ void multiply_tiles(float* sink, int rounds) {
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = Tiles::operand(threadIdx.x + 1024 * i);
    for (int i = 0; i < 2; ++i) b[i] = Tiles::operand(threadIdx.x + 1024 * i + 7777);
    float d[CHAINS][4] = {};
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) Tiles::multiply(d[i], a, b);
    float sum = 0;
    for (auto& chain : d)
        for (float value : chain) sum += value;
    if (sum == 12345.678f) *sink = sum;
}

MATRIX_PEAK(bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MATRIX_PEAK(float16, "m16n8k16.row.col.f32.f16.f16.f32")
MATRIX_PEAK(tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
#endif

// Absent where none of the two ways above is the fastest that the device has: there no rate is better than a low one.
#if defined(TILES_OF_SHARED_MEMORY) || defined(TILES_OF_REGISTERS)
extern "C" __global__ void __launch_bounds__(256) multiply_tiles_bfloat16(float* sink, int rounds) {
    multiply_tiles<Tiles_bfloat16>(sink, rounds);
}
extern "C" __global__ void __launch_bounds__(256) multiply_tiles_float16(float* sink, int rounds) {
    multiply_tiles<Tiles_float16>(sink, rounds);
}
extern "C" __global__ void __launch_bounds__(256) multiply_tiles_tf32(float* sink, int rounds) {
    multiply_tiles<Tiles_tf32>(sink, rounds);
}
/// What a launch of these needs and does: bytes of shared memory, blocks of a multiprocessor, and the products that a
/// block adds up in a round for each element that a tile is deep (16, and 8 of tf32).
extern "C" __global__ void shape_of_tiles(int* shape) {
#ifdef TILES_OF_SHARED_MEMORY
    shape[0] = GROUPS * TILE_A + TILE_B, shape[1] = 1, shape[2] = GROUPS * ROWS * COLUMNS * STEPS;
#else
    shape[0] = 0, shape[1] = 4, shape[2] = 256 / 32 * 16 * 8 * CHAINS;
#endif
}
#endif
