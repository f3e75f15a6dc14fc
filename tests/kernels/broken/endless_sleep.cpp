// Fault: sleeps for ever.
// Expected: timeout
#include "task.h"

#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    for (;;) sleep(1);
}
