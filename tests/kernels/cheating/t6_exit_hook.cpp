// Trick: leaves an exit hook that prints success, then exits.
// Defence: nothing printed is believed; an answer that never comes is a failure.
#include "task.h"

#include <cstdio>
#include <cstdlib>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    std::atexit([] { std::puts("correct: True  speedup: 100x"); });
    std::exit(0);
}
