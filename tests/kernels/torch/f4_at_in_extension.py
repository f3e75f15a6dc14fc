# Trick: an extension of its own, in which the framework's operator is called.
# Defence: it arrives at the same dispatcher.
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor softmax(torch::Tensor x) {
    return at::softmax(x, 1);
}
"""
extension = load_inline("softmax", cpp_sources=SOURCE, functions=["softmax"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.softmax(x)
