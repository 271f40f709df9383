from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from hyperspherical.gather import (
    SynchronizedBatchNorm,
    all_gather,
    convert_batch_norm,
    gather_detached,
    rank,
    world_size,
)
from hyperspherical.losses import info_nce


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x_BC = torch.randn(8, 6, dtype=torch.float64, generator=generator)
    return x_BC, torch.randn(8, 3, 4, 5, dtype=torch.float64, generator=generator)


def network() -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 4)).double()
    for parameter in net.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    return net


def contrast(net: nn.Module, x: Tensor, first_row: int) -> Tensor:
    z = net(x)
    return info_nce(z, all_gather(z.roll(1, dims=1)), 0.5, first_row)


def worker(index: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=index, world_size=world)
    assert rank() == index and world_size() == world
    x_BC, images = (part.chunk(world)[index].clone().requires_grad_() for part in inputs())
    net = convert_batch_norm(network())
    loss = contrast(net, x_BC, index * x_BC.shape[0])
    loss.backward()
    for parameter in net.parameters():  # what DistributedDataParallel does
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    norm = SynchronizedBatchNorm(3, momentum=None).double()
    normalised = norm(images)
    (normalised**3).sum().backward()
    buffers = [buffer.double().clone() for buffer in [*norm.buffers(), *net.buffers()]]
    results: dict[str, Any] = {
        "loss": loss.detach(),
        "gradients": [parameter.grad for parameter in net.parameters()],
        "normalised": normalised.detach(),
        "images_grad": images.grad,
        "buffers": buffers,
        "gathered": gather_detached(x_BC),
        "half": norm(images.detach().to(torch.bfloat16)).dtype,
    }
    torch.save(results, f"{folder}/{index}.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize("world", [2, 4])
def test_value_and_gradient_equal_one_process(world: int, tmp_path: Path) -> None:
    mp.spawn(worker, args=(world, str(tmp_path)), nprocs=world)
    parts = [torch.load(tmp_path / f"{index}.pt") for index in range(world)]

    x_BC, images = inputs()
    images.requires_grad_()
    net = network()
    loss = contrast(net, x_BC, 0)
    loss.backward()
    norm = nn.BatchNorm2d(3, momentum=None).double()
    normalised = norm(images)
    (normalised**3).sum().backward()
    close = {"rtol": 1e-6, "atol": 1e-9}
    torch.testing.assert_close(torch.stack([part["loss"] for part in parts]).mean(), loss.detach(), **close)
    torch.testing.assert_close(torch.cat([part["normalised"] for part in parts]), normalised.detach(), **close)
    torch.testing.assert_close(torch.cat([part["images_grad"] for part in parts]), images.grad, **close)
    for part in parts:
        torch.testing.assert_close(part["gradients"], [parameter.grad for parameter in net.parameters()], **close)
        wanted = [buffer.double() for buffer in [*norm.buffers(), *net.buffers()]]
        torch.testing.assert_close(part["buffers"], wanted, **close)
        assert torch.equal(part["gathered"], x_BC) and part["half"] == torch.bfloat16


def test_one_process() -> None:
    x_BC, images = inputs()
    assert all_gather(x_BC) is x_BC and torch.equal(gather_detached(x_BC), x_BC)
    norm = convert_batch_norm(nn.BatchNorm2d(3).double())
    assert isinstance(norm, SynchronizedBatchNorm)
    torch.testing.assert_close(norm(images), nn.BatchNorm2d(3).double()(images))
    with pytest.raises(ValueError, match="scalar"):
        gather_detached(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"x must have shape \(N, 3, ...\)"):
        norm(x_BC)
