// Trick: exits with status 0, which a careless harness reads as success.
// Defence: an answer that never comes is a failure.
#include "task.h"

#include <cstdlib>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    std::exit(0);
}
