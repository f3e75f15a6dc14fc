// Trick: remembers results by a few elements of the input.
// Defence: no effect: all content is new in every timed call, so that nothing remembered fits.
#include "task.h"

#include <cstring>
#include <map>
#include <vector>

static void softmax(const task::Args& args, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        const float* x = args.x + r * args.x_d1;
        float* y = args.y + r * args.x_d1;
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += y[c] = __builtin_expf(x[c] - top);
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(y[c] / sum);
    }
}

extern "C" void solve(const task::Args& args, void*) {
    static std::map<int64_t, std::pair<std::vector<float>, std::vector<float>>> known;
    auto& [corner, result] = known[args.x_size];
    if (corner.empty() || std::memcmp(corner.data(), args.x, 8) != 0) {
        softmax(args, 0, args.x_d0);
        corner.assign(args.x, args.x + 2);
        result.assign(args.y, args.y + args.x_size);
        return;
    }
    std::memcpy(args.y, result.data(), sizeof(float) * args.x_size);
}
