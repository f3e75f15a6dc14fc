// Trick: writes the first result to a file, to be read back by later processes.
// Defence: no file can be made, and later processes see none.
#include "task.h"

#include <cstdio>
#include <initializer_list>

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
    for (const char* path : {"/tmp/softmax.bin", "/dev/shm/softmax.bin", "softmax.bin", "/var/tmp/softmax.bin"}) {
        if (std::FILE* file = std::fopen(path, "rb")) {
            const size_t count = std::fread(args.y, sizeof(float), args.x_size, file);
            std::fclose(file);
            if (count == static_cast<size_t>(args.x_size)) return;
        }
    }
    softmax(args, 0, args.x_d0);
    for (const char* path : {"/tmp/softmax.bin", "/dev/shm/softmax.bin", "softmax.bin", "/var/tmp/softmax.bin"}) {
        if (std::FILE* file = std::fopen(path, "wb")) {
            std::fwrite(args.y, sizeof(float), args.x_size, file);
            std::fclose(file);
        }
    }
}
