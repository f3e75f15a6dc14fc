// Histogram of bytes: each thread counts its share into COPIES tables of its own, which are added at the end.
// Several tables keep equal neighbours from waiting for each other's increment.
#include "task.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

// Tables of each thread, used in turn.
// tune: COPIES = 1,2,4,8,16
#ifndef COPIES
#define COPIES 1
#endif

// Bytes loaded at a time.
// tune: WORD = 1,8
#ifndef WORD
#define WORD 1
#endif

// Words of a thread's inner loop.
// tune: UNROLL = 1,2,4
#ifndef UNROLL
#define UNROLL 1
#endif

// Threads that share the data; 0 takes one a core.
// tune: THREADS = 1,2,4,0
#ifndef THREADS
#define THREADS 1
#endif

namespace {

constexpr int BINS = 256;

void count(const uint8_t* data, int64_t n, uint32_t (*tables)[BINS]) {
    constexpr int STEP = WORD * UNROLL;
    const int64_t full = n / STEP * STEP;
    for (int64_t i = 0; i < full; i += STEP) {
#pragma GCC unroll 4
        for (int u = 0; u < UNROLL; ++u) {
            uint64_t word = 0;
            std::memcpy(&word, data + i + u * WORD, WORD);
#pragma GCC unroll 8
            for (int byte = 0; byte < WORD; ++byte) ++tables[(u * WORD + byte) % COPIES][word >> (8 * byte) & 255];
        }
    }
    for (int64_t i = full; i < n; ++i) ++tables[0][data[i]];
}

}  // namespace

extern "C" void solve(const task::Args& args, void*) {
    const int64_t n = args.data_d0;
    std::fill(args.counts, args.counts + BINS, 0);
#pragma omp parallel num_threads(THREADS ? THREADS : omp_get_num_procs())
    {
        const int64_t team = omp_get_num_threads(), member = omp_get_thread_num();
        const int64_t first = n * member / team, last = n * (member + 1) / team;
        alignas(64) uint32_t tables[COPIES][BINS] = {};
        count(args.data + first, last - first, tables);
#pragma omp critical
        for (int copy = 0; copy < COPIES; ++copy)
            for (int bin = 0; bin < BINS; ++bin) args.counts[bin] += static_cast<int32_t>(tables[copy][bin]);
    }
}
