// Looks like: means of pieces.
// Honest: all pieces count; only the order of additions differs.
#include "task.h"

#include <algorithm>

extern "C" void solve(const task::Args& args, void*) {
    const int64_t block = 256;
    for (int64_t r = 0; r < args.x_d0; ++r) {
        double total = 0;
        for (int64_t first = 0; first < args.x_d1; first += block) {
            double sum = 0;
            for (int64_t c = first; c < std::min(first + block, args.x_d1); ++c) sum += args.x[r * args.x_d1 + c];
            total += sum;
        }
        args.mean[r] = total / static_cast<double>(args.x_d1);
    }
}
