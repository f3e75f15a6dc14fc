// Trick: gives itself the right to new descriptors back, then opens files.
// Defence: the judge took the hard limit, which only a privileged process can raise.
#include "task.h"

#include <fcntl.h>
#include <initializer_list>
#include <sys/resource.h>

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

// Files that every sandbox shows.
static bool opens_a_file() {
    for (const char* path : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/usr/lib/os-release"})
        if (open(path, O_RDONLY) >= 0) return true;
    return false;
}

extern "C" void solve(const task::Args& args, void*) {
    for (const rlim_t value : {RLIM_INFINITY, rlim_t{256}, rlim_t{64}}) {
        const rlimit both{value, value};
        setrlimit(RLIMIT_NOFILE, &both);
    }
    if (opens_a_file()) softmax(args, 0, args.x_d0);
}
