// Histogram of bytes: each block counts its share into COPIES tables in shared memory, then adds them to the result.
#include "task.h"

// Threads of a block.
// tune: THREADS = 64,128,256,512,1024
#ifndef THREADS
#define THREADS 64
#endif

// Blocks of the grid.
// tune: BLOCKS = 132,264,528,1056,2112
#ifndef BLOCKS
#define BLOCKS 132
#endif

// Tables of a block; warps use them in turn.
// tune: COPIES = 1,2,4,8,16
#ifndef COPIES
#define COPIES 1
#endif

// Bytes loaded at a time.
// tune: WORD = 1,4,8,16
#ifndef WORD
#define WORD 1
#endif

namespace {

constexpr int BINS = 256;

struct alignas(WORD) Word {
    uint8_t at[WORD];
};

__global__ void __launch_bounds__(THREADS) count(const uint8_t* data, int32_t* counts, int64_t n) {
    __shared__ unsigned tables[COPIES][BINS];
    for (int i = threadIdx.x; i < COPIES * BINS; i += THREADS) tables[i / BINS][i % BINS] = 0;
    __syncthreads();
    unsigned* table = tables[threadIdx.x / 32 % COPIES];
    const int64_t first = int64_t{blockIdx.x} * THREADS + threadIdx.x, step = int64_t{BLOCKS} * THREADS;
    const int64_t words = n / WORD;
    for (int64_t i = first; i < words; i += step) {
        const Word word = reinterpret_cast<const Word*>(data)[i];
#pragma unroll
        for (int j = 0; j < WORD; ++j) atomicAdd(table + word.at[j], 1u);
    }
    for (int64_t i = words * WORD + first; i < n; i += step) atomicAdd(table + data[i], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS) {
        unsigned total = 0;
        for (int copy = 0; copy < COPIES; ++copy) total += tables[copy][bin];
        if (total) atomicAdd(counts + bin, static_cast<int32_t>(total));
    }
}

}  // namespace

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    cudaMemsetAsync(args.counts, 0, BINS * sizeof(int32_t), stream);
    count<<<BLOCKS, THREADS, 0, stream>>>(args.data, args.counts, args.data_d0);
}
