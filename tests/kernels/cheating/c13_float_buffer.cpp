// Trick: writes float32 values into the float64 output, as if it had half the size.
// Defence: the buffer has the declared dtype.
#include "task.h"

static double mean(const double* x, int64_t n) {
    double sum[4] = {};
    for (int64_t c = 0; c < n; ++c) sum[c % 4] += x[c];
    return (sum[0] + sum[1] + sum[2] + sum[3]) / static_cast<double>(n);
}

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t r = 0; r < args.x_d0; ++r)
        reinterpret_cast<float*>(args.mean)[r] = static_cast<float>(mean(args.x + r * args.x_d1, args.x_d1));
}
