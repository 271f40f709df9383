"""The only place that knows torch.distributed: gathering over ranks, and batch norm over the whole batch.

Gradient scale: the backward pass of a gathered tensor sums what every rank sends back. If each rank's loss is the mean
over its own rows and parameter gradients are averaged over ranks (as DistributedDataParallel does), the result is the
gradient of the mean over all rows, as on one process. Every rank must hold the same number of rows.
"""

from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hyperspherical.checks import check_floating

T = TypeVar("T")


def world_size() -> int:
    """Number of ranks; 1 where no group is initialised."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Index of this rank; 0 where no group is initialised."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _gathered(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(world_size())[rank()]


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


def _gathered(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def _check_rows(x: Tensor) -> None:
    if x.dim() == 0:
        raise ValueError("x must have at least one axis, got a scalar")


def all_gather(x: Tensor) -> Tensor:
    """Rows of all ranks, in rank order, differentiable: (B, ...) -> (world * B, ...). One process: x itself.

    Raises:
        ValueError: x is a scalar or not floating point.
    """
    check_floating("x", x)
    _check_rows(x)
    if world_size() == 1:
        return x
    gathered: Tensor = _AllGather.apply(x)
    return gathered


def gather_detached(x: Tensor) -> Tensor:
    """Rows of all ranks, in rank order, without gradient: (B, ...) -> (world * B, ...).

    Raises:
        ValueError: x is a scalar.
    """
    _check_rows(x)
    return x.detach() if world_size() == 1 else _gathered(x.detach())


def gather_objects(value: T) -> list[T]:
    """Any picklable value of every rank, in the order of ranks: for evaluation, whose shards differ in size."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values


def broadcast_buffers(module: nn.Module) -> None:
    """Gives every rank the buffers of rank 0, so that all of them evaluate the same model."""
    if world_size() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, 0)


class SynchronizedBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over the rows of all ranks, on any device that the group's backend serves (torch's is GPU only).

    Takes (N, C) or (N, C, ...) inputs. Equal, in value and in gradient, to `BatchNorm` of the whole batch on one
    process. Ranks may hold different numbers of rows. Arguments and state are those of `torch.nn.BatchNorm2d`.

    Raises:
        ValueError: an input with fewer than two axes or the wrong number of channels, or a single value per channel.
    """

    def _check_input_dim(self, x: Tensor) -> None:
        if x.dim() < 2 or x.shape[1] != self.num_features:
            raise ValueError(f"x must have shape (N, {self.num_features}, ...), got {tuple(x.shape)}")

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, ...) -> same shape."""
        use_batch = self.training or self.running_mean is None
        if world_size() == 1 or not use_batch:
            result: Tensor = super().forward(x)
            return result
        self._check_input_dim(x)
        values = x if x.dtype == torch.float64 else x.float()
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = (1, -1, *(1 for _ in axes[1:]))
        local_count = torch.full((1,), x.numel() // x.shape[1], dtype=values.dtype, device=x.device)
        sums: Tensor = _AllReduce.apply(torch.cat([values.sum(dim=axes), local_count]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = values - mean.view(shape)
        # The second pass over the centred values keeps the digits that E[x^2] - E[x]^2 loses.
        squares: Tensor = _AllReduce.apply(centred.square().sum(dim=axes))
        variance = squares / count
        if self.training and self.track_running_stats:
            self._update_running_statistics(mean.detach(), squares.detach() / (count - 1).clamp_min(1))
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(x.dtype)

    @torch.no_grad()
    def _update_running_statistics(self, mean: Tensor, unbiased_variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased_variance.to(self.running_var.dtype), momentum)


def convert_batch_norm(module: nn.Module) -> nn.Module:
    """Replace every batch norm inside `module` by `SynchronizedBatchNorm`, sharing parameters and buffers.

    Returns the module itself, or its replacement where it is a batch norm.
    """
    if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, SynchronizedBatchNorm):
        new = SynchronizedBatchNorm(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
        )
        new.weight, new.bias = module.weight, module.bias
        new.running_mean, new.running_var = module.running_mean, module.running_var
        new.num_batches_tracked = module.num_batches_tracked
        new.train(module.training)
        return new
    for name, child in module.named_children():
        setattr(module, name, convert_batch_norm(child))
    return module
