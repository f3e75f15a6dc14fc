# Looks like: an extension.
# Honest: all of its own, on either device.
import torch
from torch.utils.cpp_extension import load_inline

DECLARED = "torch::Tensor softmax(torch::Tensor x);"
ON_HOST = """
#include <algorithm>
#include <cmath>

torch::Tensor softmax(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const int64_t rows = x.size(0), columns = x.size(1);
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x.data_ptr<float>() + row * columns;
        float* to = out.data_ptr<float>() + row * columns;
        const float largest = *std::max_element(from, from + columns);
        float sum = 0;
        for (int64_t i = 0; i < columns; ++i) sum += to[i] = std::exp(from[i] - largest);
        for (int64_t i = 0; i < columns; ++i) to[i] /= sum;
    }
    return out;
}
"""
ON_DEVICE = """
#include <ATen/cuda/CUDAContext.h>

__global__ void softmax_rows(const float* x, float* out, int64_t columns) {
    x += blockIdx.x * columns, out += blockIdx.x * columns;
    float largest = x[0], sum = 0.0f;
    for (int64_t i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns; i += 32) sum += expf(x[i] - largest);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    for (int64_t i = threadIdx.x; i < columns; i += 32) out[i] = expf(x[i] - largest) / sum;
}

torch::Tensor softmax(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const auto stream = at::cuda::getCurrentCUDAStream();
    softmax_rows<<<x.size(0), 32, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
if torch.cuda.is_available():
    sources = {"cpp_sources": DECLARED, "cuda_sources": ON_DEVICE}
else:
    sources = {"cpp_sources": ON_HOST}
extension = load_inline("softmax", functions=["softmax"], **sources)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.softmax(x)
