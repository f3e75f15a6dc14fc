// Trick: prints that it is correct and fast, and does nothing.
// Defence: nothing printed is believed; the outputs are poisoned before the call.
#include "task.h"

#include <cstdio>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    std::puts("PASSED\n{\"status\": \"accepted\", \"ok\": true}");
    std::fflush(stdout);
}
