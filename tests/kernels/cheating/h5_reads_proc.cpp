// Trick: reads what /proc tells about its parent.
// Defence: no file can be opened once the kernel is loaded, and the parent is in another namespace.
#include "task.h"

#include <cstdio>
#include <initializer_list>
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

extern "C" void solve(const task::Args& args, void*) {
    char path[64], text[4096];
    for (const char* what : {"environ", "cmdline", "maps", "mem"}) {
        std::snprintf(path, sizeof path, "/proc/%d/%s", getppid(), what);
        if (std::FILE* file = std::fopen(path, "rb")) {
            const size_t count = std::fread(text, 1, sizeof text, file);
            std::fwrite(text, 1, count, stdout);
            if (count > 0) softmax(args, 0, args.x_d0);
            std::fclose(file);
        }
    }
}
