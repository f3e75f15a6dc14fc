# Trick: new memory is handed out, in the hope that somebody left the result there.
# Defence: the judge fills new memory with a pattern.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
