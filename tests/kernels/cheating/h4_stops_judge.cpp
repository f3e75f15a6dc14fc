// Trick: stops its parent, so that the clock of a rival runs on.
// Defence: signals to others are trapped.
#include "task.h"

#include <csignal>
#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    kill(getppid(), SIGSTOP);
}
