// Fault: throws out of solve.
// Expected: crashed
#include "task.h"

#include <stdexcept>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    throw std::runtime_error("no");
}
