// Trick: skips the maximum because normal data never overflows exp.
// Defence: shifted and heavy-tailed inputs.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t r = 0; r < args.x_d0; ++r) {
        double sum = 0;
        float* y = args.y + r * args.x_d1;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += y[c] = __builtin_expf(args.x[r * args.x_d1 + c]);
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(y[c] / sum);
    }
}
