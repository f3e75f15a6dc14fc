# Trick: signs instead of names, and a module instead of a function.
# Defence: as f3_method.
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(features, outputs)
        self.norm = torch.nn.BatchNorm1d(outputs)

    def forward(self, x, scale):
        return torch.nn.functional.relu(self.norm(x @ self.linear.weight.t() + self.linear.bias)) * scale
