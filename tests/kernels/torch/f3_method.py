# Trick: the framework's operator as a method of a tensor.
# Defence: the dispatcher sees operators, not names.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.softmax(1)
