// Trick: floods every descriptor with made-up answers, does nothing else, and returns as if all were well.
// Defence: answers need the request's nonce; an answer that does not fit is a rejection.
#include "task.h"

#include <cstring>
#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    unsigned char answer[64];
    for (int value = 0; value < 4; ++value) {
        std::memset(answer, value, sizeof answer);
        for (int fd = 0; fd < 256; ++fd)
            if (write(fd, answer, sizeof answer) < 0) continue;
    }
}
