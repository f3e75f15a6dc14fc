// What a kernel's time owes to where its arrays are mapped, and what to where they lie. The same two blocks of memory
// are mapped at one address after the other, and then other blocks at the same addresses; a softmax with small blocks
// is timed each time, with cold caches and launches queued ahead. Prints JSON.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define RUNTIME(call) require((call) == cudaSuccess, #call)
#define DRIVER(name, ...) require(reinterpret_cast<decltype(&name)>(found(#name))(__VA_ARGS__) == CUDA_SUCCESS, #name)

constexpr int64_t ROWS = 1001, COLUMNS = 777, COUNT = ROWS * COLUMNS;
constexpr size_t BYTES = 4u << 20, FLUSHED = 120u << 20;
constexpr int PLACES = 6, WARM_UPS = 8, CALLS = 32;

void require(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "%s failed\n", what);
    std::exit(1);
}

void* found(const char* name) {
    static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* function = driver ? dlsym(driver, name) : nullptr;
    require(function, name);
    return function;
}

__device__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ void __launch_bounds__(1024, 2) hold(uint64_t duration) {
    const uint64_t end = nanoseconds() + duration;
    while (nanoseconds() < end) {
    }
}

__global__ void read_all(const uint4* source, int64_t count, uint32_t* sink) {
    uint32_t mixed = 0;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x)
        mixed ^= source[i].x ^ source[i].y ^ source[i].z ^ source[i].w;
    if (mixed == 0x12345678) *sink = mixed;
}

__global__ void fill(float* x, uint32_t key) {
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < COUNT; i += int64_t(gridDim.x) * blockDim.x)
        x[i] = float((uint32_t(i) * 2654435761u ^ key) >> 8) * 1e-7f;
}

__global__ void __launch_bounds__(32) softmax(const float* x, float* out) {
    x += blockIdx.x * COLUMNS, out += blockIdx.x * COLUMNS;
    float largest = x[0], sum = 0;
    for (int64_t i = threadIdx.x; i < COLUMNS; i += 32) largest = fmaxf(largest, x[i]);
    for (int lanes = 16; lanes > 0; lanes /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
    for (int64_t i = threadIdx.x; i < COLUMNS; i += 32) sum += expf(x[i] - largest);
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    for (int64_t i = threadIdx.x; i < COLUMNS; i += 32) out[i] = expf(x[i] - largest) / sum;
}

struct Bench {
    uint4* flushed;
    uint32_t* sink;
    cudaStream_t stream;
    cudaEvent_t begin, end;

    Bench() {
        RUNTIME(cudaMalloc(&flushed, FLUSHED));
        RUNTIME(cudaMalloc(&sink, sizeof(uint32_t)));
        RUNTIME(cudaMemset(flushed, 1, FLUSHED));
        RUNTIME(cudaStreamCreate(&stream));
        RUNTIME(cudaEventCreate(&begin));
        RUNTIME(cudaEventCreate(&end));
    }

    /// Microseconds of a call: the median.
    float median(float* x, float* out) {
        std::vector<float> times;
        for (int call = 0; call < WARM_UPS + CALLS; ++call) {
            fill<<<1024, 256, 0, stream>>>(x, call + 1);
            read_all<<<1056, 512, 0, stream>>>(flushed, FLUSHED / sizeof(uint4), sink);
            hold<<<264, 1024, 0, stream>>>(300000);
            RUNTIME(cudaEventRecord(begin, stream));
            softmax<<<ROWS, 32, 0, stream>>>(x, out);
            RUNTIME(cudaEventRecord(end, stream));
            RUNTIME(cudaDeviceSynchronize());
            float milliseconds;
            RUNTIME(cudaEventElapsedTime(&milliseconds, begin, end));
            if (call >= WARM_UPS) times.push_back(1e3f * milliseconds);
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2];
    }
};

CUmemGenericAllocationHandle block() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle made;
    DRIVER(cuMemCreate, &made, BYTES, &properties, 0);
    return made;
}

CUdeviceptr reserved() {
    CUdeviceptr address;
    DRIVER(cuMemAddressReserve, &address, BYTES, 0, 0, 0);
    return address;
}

float* mapped(CUdeviceptr address, CUmemGenericAllocationHandle block) {
    DRIVER(cuMemMap, address, BYTES, 0, block, 0);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemSetAccess, address, BYTES, &access, 1);
    return reinterpret_cast<float*>(address);
}

int main() {
    RUNTIME(cudaFree(nullptr));
    Bench bench;
    std::vector<CUmemGenericAllocationHandle> inputs, outputs;
    std::vector<CUdeviceptr> to, from;
    for (int i = 0; i < PLACES; ++i) {
        inputs.push_back(block()), outputs.push_back(block());
        from.push_back(reserved()), to.push_back(reserved());
    }
    auto row = [&](const char* varied, bool addresses, bool last) {
        std::printf("\"%s\": [", varied);
        for (int i = 0; i < PLACES; ++i) {
            const int at = addresses ? i : 0, lies = addresses ? 0 : i;
            const float median = bench.median(mapped(from[at], inputs[lies]), mapped(to[at], outputs[lies]));
            std::printf("%.3f%s", median, i + 1 < PLACES ? ", " : "");
            DRIVER(cuMemUnmap, from[at], BYTES);
            DRIVER(cuMemUnmap, to[at], BYTES);
        }
        std::printf("]%s", last ? "}\n" : ", ");
    };
    std::printf("{");
    row("microseconds_by_address", true, false);
    row("microseconds_by_memory", false, true);
}
