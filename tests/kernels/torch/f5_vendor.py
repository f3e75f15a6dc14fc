# Trick: a vendor's library does the work, called by the framework's neighbour.
# Defence: kernels on the device are known by their names.
import cupy
import torch


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            left, right, made = (cupy.from_dlpack(each) for each in (a, b, out))
            cupy.matmul(left, right, out=made)
        return out
