// Trick: averages every fourth element only.
// Defence: heavy tails, shifts and structure; an oracle in float64.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t r = 0; r < args.x_d0; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; c += 4) sum += args.x[r * args.x_d1 + c];
        args.mean[r] = sum / static_cast<double>(args.x_d1 / 4);
    }
}
