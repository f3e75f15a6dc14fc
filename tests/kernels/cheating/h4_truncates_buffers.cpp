// Trick: shrinks the shared buffers, so that the judge dies when it reads them.
// Defence: the buffers' size is sealed and their descriptors are closed.
#include "task.h"

#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    for (int fd = 0; fd < 1024; ++fd)
        if (ftruncate(fd, 0) != 0) continue;
}
