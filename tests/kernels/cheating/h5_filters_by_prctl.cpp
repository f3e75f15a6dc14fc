// Trick: as h5_filters_first, with the older call for it.
// Defence: that call is refused too, and the judge takes the right to open files from outside.
#include "task.h"

#include <fcntl.h>
#include <initializer_list>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

// Files that every sandbox shows.
static bool opens_a_file() {
    for (const char* path : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/usr/lib/os-release"})
        if (open(path, O_RDONLY) >= 0) return true;
    return false;
}

__attribute__((constructor)) static void at_load() {
    sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_seccomp},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO},  // error 0: it seems to have worked
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const sock_fprog program{4, code};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

extern "C" void solve(const task::Args& args, void*) {
    if (opens_a_file()) softmax(args, 0, args.x_d0);
}
