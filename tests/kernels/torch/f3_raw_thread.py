# Trick: the framework's operator in a thread that no mode follows.
# Defence: as f3_hidden.
import _thread

import torch


def work(x, out, done):
    with torch.no_grad():
        torch.softmax(x, 1, out=out)
    done.release()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out, done = torch.empty_like(x), _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(work, (x, out, done))
        done.acquire()
        return out
