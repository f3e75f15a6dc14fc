# Trick: writes made-up answers to every descriptor.
# Defence: an answer needs the request's nonce.
import contextlib
import os
import struct

import torch

ANSWER = struct.pack("=QIiQiiii88s", 0, 2, 0, 5000, 0, 0, 3, -1, b"5000")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        for descriptor in range(3, 1024):
            with contextlib.suppress(OSError):
                os.write(descriptor, ANSWER)
        return out
