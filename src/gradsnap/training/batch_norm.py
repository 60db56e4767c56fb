"""Batch normalization over the batches of all processes, on any device.

Torch's ``SyncBatchNorm`` runs on CUDA alone; this one is a few lines, and lets several
processes on CPUs equal one with the same global batch.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.modules.batchnorm import _BatchNorm


class _Sum(torch.autograd.Function):
    """Sum over processes; its gradient is summed too."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total


class GlobalBatchNorm(_BatchNorm):
    """As torch's batch normalization, with statistics of all processes' rows."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Any (n, channels, …)."""

    def forward(self, maps: Tensor) -> Tensor:
        """Normalized maps (n, channels, …)."""
        if not self.training:
            return super().forward(maps)
        axes = [0, *range(2, maps.ndim)]
        count = maps.new_full((1,), maps.numel() // maps.shape[1])
        sums = _summed(torch.cat([maps.sum(axes), count]))
        mean = sums[:-1] / sums[-1]  # (channels,)
        shape = (1, -1, *[1] * (maps.ndim - 2))
        centred = maps - mean.view(shape)
        variance = _summed(centred.square().sum(axes)) / sums[-1]
        self._remember(mean.detach(), variance.detach(), sums[-1].detach())
        output = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            output = output * self.weight.view(shape) + self.bias.view(shape)
        return output

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        share = 0.1 if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance * count / (count - 1), share)


def with_global_batch_norm(module: nn.Module) -> nn.Module:
    """Replaces every batch normalization inside; parameters and names stay."""
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm):
            setattr(module, name, _converted(child))
        else:
            with_global_batch_norm(child)
    return module


def _converted(layer: _BatchNorm) -> GlobalBatchNorm:
    made = GlobalBatchNorm(
        layer.num_features,
        layer.eps,
        layer.momentum,
        layer.affine,
        layer.track_running_stats,
    )
    made.__dict__.update(layer.__dict__)  # the very same parameters and buffers
    return made


def _summed(values: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
    return total
