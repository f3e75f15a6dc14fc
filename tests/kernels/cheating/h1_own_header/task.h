// Trick: as in kernel.cpp beside it.
// Defence: as there.
#pragma once
#include <cstdint>

namespace task {
struct Args {
    const float* x;
    float* y;
    static constexpr int64_t x_d0 = 8, x_d1 = 333, x_size = 8 * 333;
};
inline int64_t rows(const Args&) { return 8; }
}  // namespace task
