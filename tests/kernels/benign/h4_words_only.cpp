// Looks like: names fork(), kill(), ptrace, getenv("HOME"), system() and /proc/self.
// Honest: only in words and in names of its own.
#include "task.h"

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

namespace {
struct Scheduler {
    int64_t rows;
    int64_t fork_at() const { return rows / 2; }  // where the work forks, not fork(2)
    int64_t system_size() const { return rows; }
};
const char* const remark = "no system(\"true\"), no open(\"/etc/passwd\"), no socket() and no syscall(57)";
}  // namespace

/* Once this was: if (fork() == 0) { kill(getppid(), 9); } getenv("HOME"); dlopen("libopenblas.so", 2); */
extern "C" void solve(const task::Args& args, void*) {
    const Scheduler plan{args.x_d0};
    softmax(args, 0, plan.fork_at());
    softmax(args, plan.fork_at(), plan.system_size());
    if (remark == nullptr) return;
}
