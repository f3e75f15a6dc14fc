// Softmax row by row: the largest element, then the exponentials and their sum, then the division.
#include "task.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>

// 0: the library's exponential, one element at a time; 1: a polynomial that the compiler can vectorise.
// tune: POLYNOMIAL = 0,1
#ifndef POLYNOMIAL
#define POLYNOMIAL 0
#endif

// Independent running maxima and sums: one is a chain of dependent steps, many fill vector registers.
// tune: LANES = 1,8,16,32,64
#ifndef LANES
#define LANES 1
#endif

// Threads that share the rows; 0 takes one a core.
// tune: THREADS = 1,2,4,0
#ifndef THREADS
#define THREADS 1
#endif

// Rows that a thread takes at a time.
// tune: CHUNK = 1,4,16,64
#ifndef CHUNK
#define CHUNK 1
#endif

namespace {

/// e^x for x <= 0 within two units in the last place: 2^n times a polynomial on [-ln2/2, ln2/2].
inline float exp_of(float x) {
    if (!POLYNOMIAL) return std::exp(x);
    x = x < -87.0f ? -87.0f : x;
    const float shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2^23 rounds to a whole number
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

float largest_of(const float* x, int64_t n) {
    float lane[LANES];
    for (int l = 0; l < LANES; ++l) lane[l] = x[0];
    const int64_t full = n / LANES * LANES;
    for (int64_t i = 0; i < full; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; ++l) lane[l] = lane[l] < x[i + l] ? x[i + l] : lane[l];
    }
    float largest = x[0];
    for (int l = 0; l < LANES; ++l) largest = std::max(largest, lane[l]);
    for (int64_t i = full; i < n; ++i) largest = std::max(largest, x[i]);
    return largest;
}

/// Writes e^(x - largest) to `out` and returns the sum.
float raise(const float* x, float* out, int64_t n, float largest) {
    float lane[LANES] = {};
    const int64_t full = n / LANES * LANES;
    for (int64_t i = 0; i < full; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; ++l) {
            const float value = exp_of(x[i + l] - largest);
            out[i + l] = value;
            lane[l] += value;
        }
    }
    float sum = 0.0f;
    for (int64_t i = full; i < n; ++i) sum += out[i] = exp_of(x[i] - largest);
    for (int l = 0; l < LANES; ++l) sum += lane[l];
    return sum;
}

}  // namespace

extern "C" void solve(const task::Args& args, void*) {
    const int64_t rows = args.x_d0, columns = args.x_d1;
#pragma omp parallel for schedule(static, CHUNK) num_threads(THREADS ? THREADS : omp_get_num_procs())
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args.x + row * columns;
        float* out = args.out + row * columns;
        const float scale = 1.0f / raise(x, out, columns, largest_of(x, columns));
#pragma omp simd
        for (int64_t i = 0; i < columns; ++i) out[i] *= scale;
    }
}
