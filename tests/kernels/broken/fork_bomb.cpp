// Fault: forks without end (bounded here in case nothing holds it).
// Expected: forbidden_syscall
#include "task.h"

#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    for (int i = 0; i < 2000; ++i)
        if (fork() == 0)
            for (int seconds = 0; seconds < 20; ++seconds) sleep(1);
}
