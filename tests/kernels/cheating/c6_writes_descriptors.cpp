// Trick: writes zeros into every descriptor that could be the input's memory, then answers for zeros.
// Defence: the worker holds no writable descriptor of the inputs.
#include "task.h"

#include <unistd.h>
#include <vector>

extern "C" void solve(const task::Args& args, void*) {
    const std::vector<char> zeros(1 << 20);
    for (int fd = 0; fd < 256; ++fd)
        if (pwrite(fd, zeros.data(), zeros.size(), 0) < 0) continue;
    for (int64_t i = 0; i < args.x_size; ++i) args.y[i] = 1.0f / static_cast<float>(args.x_d1);
}
