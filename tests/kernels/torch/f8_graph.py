# Trick: operators of the framework are captured before anybody looks, and replayed as a graph.
# Defence: what runs on the device is known by its name.
import torch
from torch.utils._python_dispatch import _disable_current_modes


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            with _disable_current_modes():
                out, graph = torch.softmax(x, 1), torch.cuda.CUDAGraph()
                torch.cuda.synchronize()
                with torch.cuda.graph(graph):
                    torch.softmax(x, 1, out=out)
            self.graphs[x.shape] = (graph, out)
        graph, out = self.graphs[x.shape]
        graph.replay()
        return out
