// Looks like: it reads sixteen bytes at a time from wherever a row begins. Honest: only where each row begins at such a place
// and ends at one.
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

__global__ void by_fours(const float* x, float* out, int64_t columns) {
    const float4* from = reinterpret_cast<const float4*>(x + blockIdx.x * columns);
    float4* to = reinterpret_cast<float4*>(out + blockIdx.x * columns);
    float largest = x[blockIdx.x * columns], sum = 0.0f;
    for (int64_t i = threadIdx.x; i < columns / 4; i += 32) {
        const float4 four = from[i];
        largest = fmaxf(largest, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
    }
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns / 4; i += 32) {
        const float4 four = from[i];
        sum += expf(four.x - largest) + expf(four.y - largest) + expf(four.z - largest) + expf(four.w - largest);
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    for (int64_t i = threadIdx.x; i < columns / 4; i += 32) {
        const float4 four = from[i];
        to[i] = {expf(four.x - largest) / sum, expf(four.y - largest) / sum, expf(four.z - largest) / sum,
                 expf(four.w - largest) / sum};
    }
}

bool in_place_for_fours(const void* place, int64_t columns) {
    return columns % 4 == 0 && reinterpret_cast<uintptr_t>(place) % sizeof(float4) == 0;
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    const auto rows = static_cast<unsigned>(args.x_d0);
    if (in_place_for_fours(args.x, args.x_d1) && in_place_for_fours(args.out, args.x_d1))
        by_fours<<<rows, 32, 0, stream>>>(args.x, args.out, args.x_d1);
    else
        softmax<<<rows, 32, 0, stream>>>(args.x, args.out, args.x_d1);
}
