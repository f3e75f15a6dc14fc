// Another path for rows whose length is a multiple of four, as exact as the first: honest.
#include "task.h"

__device__ void softmax_row(const float* x, float* out, int64_t columns) {
    float largest = x[0], sum = 0.0f;
    for (int64_t i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns; i += 32) sum += expf(x[i] - largest);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    for (int64_t i = threadIdx.x; i < columns; i += 32) out[i] = expf(x[i] - largest) / sum;
}

__global__ void softmax(const float* x, float* out, int64_t columns) {
    softmax_row(x + blockIdx.x * columns, out + blockIdx.x * columns, columns);
}

__global__ void softmax_by_fours(const float* x, float* out, int64_t columns) {
    const auto row = reinterpret_cast<const float4*>(x + blockIdx.x * columns);
    const auto to = reinterpret_cast<float4*>(out + blockIdx.x * columns);
    float largest = x[blockIdx.x * columns], sum = 0.0f;
    for (int64_t i = threadIdx.x; i < columns / 4; i += 32) {
        const float4 v = row[i];
        largest = fmaxf(fmaxf(fmaxf(largest, v.x), fmaxf(v.y, v.z)), v.w);
    }
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns / 4; i += 32) {
        const float4 v = row[i];
        sum += expf(v.x - largest) + expf(v.y - largest) + expf(v.z - largest) + expf(v.w - largest);
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    for (int64_t i = threadIdx.x; i < columns / 4; i += 32) {
        const float4 v = row[i];
        to[i] = make_float4(expf(v.x - largest) / sum, expf(v.y - largest) / sum, expf(v.z - largest) / sum,
                            expf(v.w - largest) / sum);
    }
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    const auto rows = static_cast<unsigned>(args.x_d0);
    if (args.x_d1 % 4 == 0)
        softmax_by_fours<<<rows, 32, 0, stream>>>(args.x, args.out, args.x_d1);
    else
        softmax<<<rows, 32, 0, stream>>>(args.x, args.out, args.x_d1);
}
