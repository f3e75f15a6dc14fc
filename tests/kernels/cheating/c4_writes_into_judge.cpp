// Trick: writes over the parent's memory, where expected values may lie.
// Defence: other processes' memory is out of reach.
#include "task.h"

#include <sys/uio.h>
#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    for (uintptr_t at = 0x10000; at < 0x10000 + 64 * 4096; at += 4096) {
        iovec mine{args.y, 4096}, theirs{reinterpret_cast<void*>(at), 4096};
        process_vm_writev(getppid(), &mine, 1, &theirs, 1, 0);
    }
}
