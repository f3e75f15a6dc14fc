# Looks like: has its code compiled.
# Honest: by Python, and what it calls is its own kernel.
import torch

import rows

TEXT = "def forward(x, out):\n    softmax_into(x, out)\n    return out\n"


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        names = {"softmax_into": rows.softmax_into}
        exec(compile(TEXT, "generated", "exec"), names)
        self.generated = names["forward"]

    def forward(self, x):
        return self.generated(x, torch.empty_like(x))
