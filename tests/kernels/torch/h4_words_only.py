# Looks like: speaks of os.kill(os.getppid()), subprocess, /proc/self/mem and socket.
# Honest: in words.
import torch

import rows


class ModelNew(torch.nn.Module):
    """Neither import subprocess nor os.system("kill -9 1"), nor open("/proc/self/maps")."""

    def forward(self, x):
        kill, system = "os.kill", "os.system"
        return rows.softmax(x) if kill != system else x
