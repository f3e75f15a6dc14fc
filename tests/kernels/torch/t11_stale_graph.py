# Trick: a graph is captured over a copy of the first input, which is never refreshed.
# Defence: new content behind the same pointers.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            given, out, graph = torch.empty_like(x), torch.empty_like(x), torch.cuda.CUDAGraph()
            rows.softmax_into(x, given)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                rows.softmax_into(given, out)
            self.graphs[x.shape] = (graph, out, given)
        graph, out, _ = self.graphs[x.shape]
        graph.replay()
        return out
