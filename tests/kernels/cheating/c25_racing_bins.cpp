// Trick: threads count into shared bins without synchronisation.
// Defence: repeated runs on new content; exact comparison.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t b = 0; b < args.bins_size; ++b) args.bins[b] = 0;
    volatile int64_t* bins = args.bins;
#pragma omp parallel for num_threads(2)
    for (int64_t i = 0; i < args.v_size; ++i) bins[args.v[i]] = bins[args.v[i]] + 1;
}
