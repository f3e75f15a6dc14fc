// Looks like: changes the sizes in an argument record.
// Honest: in its own copy, tile by tile.
#include "task.h"

#include <algorithm>

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
    const int64_t rows = args.x_d0, tile = 16;
    for (int64_t first = 0; first < rows; first += tile) {
        task::Args mine = args;
        mine.x = args.x + first * args.x_d1;
        mine.y = args.y + first * args.x_d1;
        softmax(mine, 0, std::min(tile, rows - first));
    }
}
