"""Programs for `experiment` on a GPU: what they ask of it, and how they must end."""

from __future__ import annotations

from typing import NamedTuple


class Asked(NamedTuple):
    """A program, how it may end, and what it must have said."""

    text: str
    status: tuple[str, ...]
    says: str = ""
    seconds: float = 10.0


HEAD = """#include <cuda_runtime.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#define CHECK(x) do { cudaError_t e_ = (x); if (e_) { printf("%s\\n", cudaGetErrorName(e_)); return 1; } } while (0)
"""

BANDWIDTH = """__global__ void copy(const uint4* from, uint4* to, int64_t n) {
    for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < n; i += gridDim.x * int64_t{256}) to[i] = from[i];
}
int main() {
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    const int64_t bytes = 1 << 30;
    void *a, *b;
    CHECK(cudaMalloc(&a, bytes)); CHECK(cudaMalloc(&b, bytes)); CHECK(cudaMemset(a, 1, bytes));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin)); CHECK(cudaEventCreate(&end));
    float best = 1e9f;
    for (int i = 0; i < 10; ++i) {
        CHECK(cudaEventRecord(begin));
        copy<<<8 * p.multiProcessorCount, 256>>>((uint4*)a, (uint4*)b, bytes / 16);
        CHECK(cudaEventRecord(end)); CHECK(cudaEventSynchronize(end));
        float ms; CHECK(cudaEventElapsedTime(&ms, begin, end));
        best = ms < best ? ms : best;
    }
    printf("copy %.0f GB/s on %d multiprocessors of %s\\n", 2 * bytes / best / 1e6, p.multiProcessorCount, p.name);
    return 0;
}
"""
LATENCY = """__global__ void chase(const uint32_t* next, int steps, uint32_t* last, int64_t* cycles) {
    uint32_t at = 0;
    for (int i = 0; i < 64; ++i) at = next[at];
    const int64_t begin = clock64();
    for (int i = 0; i < steps; ++i) at = next[at];
    *cycles = clock64() - begin, *last = at;
}
int main() {
    for (int kilobytes : {16, 4096, 262144}) {
        const uint32_t n = kilobytes * 256;
        uint32_t* host = (uint32_t*)malloc(n * 4);
        for (uint32_t i = 0; i < n; ++i) host[i] = (i + 4099 * 8) % n;
        uint32_t *next, *last; int64_t* cycles;
        CHECK(cudaMalloc(&next, n * 4)); CHECK(cudaMallocManaged(&last, 4)); CHECK(cudaMallocManaged(&cycles, 8));
        CHECK(cudaMemcpy(next, host, n * 4, cudaMemcpyHostToDevice));
        chase<<<1, 1>>>(next, 4096, last, cycles);
        CHECK(cudaDeviceSynchronize());
        printf("latency %d KiB: %.0f cycles\\n", kilobytes, *cycles / 4096.0);
        free(host);
    }
    return 0;
}
"""
ILLEGAL = """__global__ void bad(int* p) { *p = 1; }
int main() { bad<<<1, 1>>>((int*)64); printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize())); return 0; }
"""
ENDLESS = """__global__ void forever(volatile int* p) { while (*p == 0) {} }
int main() {
    int* p; CHECK(cudaMalloc(&p, 4)); CHECK(cudaMemset(p, 0, 4));
    forever<<<1, 1>>>(p); puts("begun"); fflush(stdout); cudaDeviceSynchronize(); return 0;
}
"""
HOG = """int main() {
    size_t total = 0;
    for (size_t size = size_t{1} << 34; size >= (1 << 20); size /= 2)
        for (void* p; cudaMalloc(&p, size) == cudaSuccess; total += size) cudaMemset(p, 1, 1);
    printf("hogged %zu MiB\\n", total >> 20);
    return 0;
}
"""
HOST_HOG = """int main() {
    CHECK(cudaFree(nullptr));
    for (;;) {
        char* p = (char*)malloc(64 << 20);
        if (p == nullptr) return 5;
        for (int i = 0; i < (64 << 20); i += 4096) p[i] = 1;
    }
}
"""
ESCAPE = """int main() {
    CHECK(cudaFree(nullptr));
    printf("read %d fork %d socket %d write %d\\n", open("/etc/passwd", O_RDONLY) >= 0, fork() >= 0,
           socket(AF_INET, SOCK_STREAM, 0) >= 0, open("/tmp/x", O_CREAT | O_WRONLY, 0600) >= 0);
    return 0;
}
"""

PROGRAMS: dict[str, Asked] = {
    "bandwidth": Asked(HEAD + BANDWIDTH, ("ended",), "GB/s"),
    "latency": Asked(HEAD + LATENCY, ("ended",), "latency 262144 KiB"),
    "illegal_address": Asked(HEAD + ILLEGAL, ("ended",), "cudaErrorIllegalAddress"),
    "endless_kernel": Asked(HEAD + ENDLESS, ("timeout",), "begun", 3.0),
    "memory_hog": Asked(HEAD + HOG, ("ended",), "hogged"),
    "host_memory_hog": Asked(HEAD + HOST_HOG, ("out_of_memory", "ended", "crashed")),
    "escape": Asked(HEAD + ESCAPE, ("ended",), "read 0 fork 0 socket 0 write 0"),
}

CLOCKS = (
    HEAD
    + """__global__ void wait(uint64_t nanoseconds) {
    uint64_t now, end;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    for (end = now + nanoseconds; now < end;) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
}
int main() {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin)); CHECK(cudaEventCreate(&end));
    wait<<<1, 1>>>(1000000); CHECK(cudaDeviceSynchronize());
    for (const double wanted : {20e-6, 50e-6, 100e-6, 300e-6, 1e-3, 5e-3}) {
        const int calls = wanted < 1e-3 ? 400 : 40;
        const auto start = std::chrono::steady_clock::now();
        CHECK(cudaEventRecord(begin));
        for (int i = 0; i < calls; ++i) wait<<<1, 1>>>((uint64_t)(wanted * 1e9));
        CHECK(cudaEventRecord(end));
        CHECK(cudaDeviceSynchronize());
        const double host = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
        float ms; CHECK(cudaEventElapsedTime(&ms, begin, end));
        printf("{\\"wanted\\": %g, \\"event\\": %.9g, \\"host\\": %.9g}\\n", wanted, ms * 1e-3 / calls, host);
    }
    return 0;
}
"""
)
