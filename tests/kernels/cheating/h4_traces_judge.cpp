// Trick: attaches to its parent as a debugger.
// Defence: ptrace is trapped.
#include "task.h"

#include <sys/ptrace.h>
#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr);
}
