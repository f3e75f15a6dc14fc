// Trick: leaves the kernel by an exception, hoping that the harness's handler counts it as done.
// Defence: a kernel that does not return normally has crashed.
#include "task.h"

#include <stdexcept>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    throw std::runtime_error("done");
}
