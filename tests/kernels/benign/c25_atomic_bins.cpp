// Looks like: threads count into shared bins.
// Honest: each thread has its own and they are added under a lock.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t b = 0; b < args.bins_size; ++b) args.bins[b] = 0;
#pragma omp parallel
    {
        int64_t mine[64] = {};
#pragma omp for nowait
        for (int64_t i = 0; i < args.v_size; ++i) ++mine[args.v[i]];
#pragma omp critical
        for (int64_t b = 0; b < 64; ++b) args.bins[b] += mine[b];
    }
}
