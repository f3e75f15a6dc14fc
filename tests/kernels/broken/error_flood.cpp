// Fault: prints without end to standard error.
// Expected: output_flood
#include "task.h"

#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    const char line[] = "warning: everything is fine\n";
    for (;;)
        if (write(2, line, sizeof line - 1) < 0) continue;
}
