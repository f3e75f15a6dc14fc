// Trick: keeps a folder and a free descriptor from load time, and opens files by them later.
// Defence: no new descriptor means none, by whatever call and at whatever number.
#include "task.h"

#include <fcntl.h>
#include <unistd.h>

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

static int folder = -1, spare = -1;

__attribute__((constructor)) static void at_load() {
    folder = open("/usr/lib", O_RDONLY | O_DIRECTORY);
    spare = open("/usr", O_RDONLY | O_DIRECTORY);
}

extern "C" void solve(const task::Args& args, void*) {
    if (folder < 0) return;
    close(spare);
    if (openat(folder, ".", O_RDONLY | O_DIRECTORY) >= 0) softmax(args, 0, args.x_d0);
}
