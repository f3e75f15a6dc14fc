# Trick: warps add to one sum without atomics.
# Defence: repeated runs, and each call's result.
import cupy
import torch

KERNEL = cupy.RawKernel(
    r"""
extern "C" __global__ void softmax(const float* x, float* out, float* sums, int columns) {
    x += blockIdx.x * (long long)columns, out += blockIdx.x * (long long)columns;
    float largest = x[0], sum = 0.0f;
    for (int i = threadIdx.x % 32; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[i] - largest);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    volatile float* total = &sums[blockIdx.x];
    if (threadIdx.x == 0) *total = 0.0f;
    __syncthreads();
    if (threadIdx.x % 32 == 0) *total = *total + sum;
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(x[i] - largest) / *total;
}
""",
    "softmax",
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out, sums = torch.empty_like(x), torch.empty(x.shape[0], device=x.device)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            KERNEL((x.shape[0],), (256,), (x.data_ptr(), out.data_ptr(), sums.data_ptr(), cupy.int32(x.shape[1])))
        return out
