# Trick: the framework's other compiler.
# Defence: as f8_compiled.
import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.work = torch.jit.trace(lambda x: torch.softmax(x, 1), torch.zeros(4, 4))

    def forward(self, x):
        return self.work(x)
