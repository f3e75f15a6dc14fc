// Trick: has a thread of a constructor wait until the kernel runs, and open files then.
// Defence: what the judge takes, it takes from all threads.
#include "task.h"

#include <atomic>
#include <fcntl.h>
#include <initializer_list>
#include <thread>

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

static std::atomic<int> asked{0}, answered{0}, found{0};

__attribute__((constructor)) static void at_load() {
    std::thread([] {
        asked.wait(0);
        found = opens_a_file();
        answered = 1;
        answered.notify_all();
    }).detach();
}

extern "C" void solve(const task::Args& args, void*) {
    asked = 1;
    asked.notify_all();
    answered.wait(0);
    if (found) softmax(args, 0, args.x_d0);
}
