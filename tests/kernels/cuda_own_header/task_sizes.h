// The sizes that the kernel would like better, in the task's own namespace.
#pragma once

namespace task {
struct Args;
struct Sizes {
    explicit Sizes(const Args&) {}
    int64_t rows = 8;
};
}  // namespace task
