// Trick: stops itself, so that the judge waits for ever.
// Defence: every request has a time limit; the whole group is ended.
#include "task.h"

#include <csignal>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    std::raise(SIGSTOP);
}
