// Fault: divides by zero.
// Expected: crashed
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    volatile int64_t zero = 0;
    args.y[0] = static_cast<float>(args.x_d0 / zero);
}
