// Fault: prints without end.
// Expected: output_flood
#include "task.h"

#include <cstdio>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    for (;;) std::puts("all work and no play makes a dull kernel, all work and no play makes a dull kernel");
}
