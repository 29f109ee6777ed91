"""Stand-ins for tensors on an accelerator."""

import torch
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda", 0)


class Sliced(TorchFunctionMode):
    """Writes x[…], ~x and copies in other words: on a stand-in these ask for a driver."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__invert__:
            return torch.logical_not(*args)
        if func is torch.Tensor.contiguous:
            return args[0].clone(memory_format=torch.contiguous_format)
        if func is not torch.Tensor.__getitem__:
            return func(*args, **(kwargs or {}))
        x, index = args
        index, axis = index if isinstance(index, tuple) else (index,), 0
        for i, item in enumerate(index):
            if item is Ellipsis:
                axis = x.ndim - sum(rest is not None for rest in index[i + 1 :])
                continue
            if isinstance(item, int):
                x = x.select(axis, item)
                continue
            if isinstance(item, torch.Tensor):
                x = x.index_select(axis, item)
            elif isinstance(item, slice):
                x = torch.ops.aten.slice(x, axis, item.start, item.stop)
            else:
                assert item is None
                x = x.unsqueeze(axis)
            axis += 1
        return x
