// Fault: aborts.
// Expected: crashed, with the signal's name
#include "task.h"

#include <cstdlib>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    std::abort();
}
