// Trick: writes a made-up success to every file descriptor and leaves.
// Defence: answers need the request's nonce; an answer that does not fit is a rejection.
#include "task.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    const char text[] = "{\"ok\":true,\"status\":\"accepted\",\"inner\":1e-9,\"seconds\":1e-9}\n";
    char binary[64] = {};
    for (int fd = 0; fd < 256; ++fd) {
        if (write(fd, text, sizeof text - 1) < 0) continue;
        if (write(fd, binary, sizeof binary) < 0) continue;
    }
    _exit(0);
}
