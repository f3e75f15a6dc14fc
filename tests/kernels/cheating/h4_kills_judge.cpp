// Trick: kills its parent, so that an older result stays.
// Defence: signals to others are trapped; the judge is not in its process namespace.
#include "task.h"

#include <csignal>
#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    kill(getppid(), SIGKILL);
}
