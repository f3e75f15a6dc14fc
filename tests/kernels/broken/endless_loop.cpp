// Fault: loops for ever.
// Expected: timeout
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    for (volatile bool on = true; on;) {
    }
}
