from collections.abc import Callable
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
from hyperspherical.losses import dcl_loss, in_batch_loss, info_nce, loss_average, queue_info_nce, simclr_loss
from hyperspherical.similarity import DivergenceSimilarity, VonMisesParameters, feature_average_similarity

CLOSE = {"rtol": 1e-6, "atol": 1e-9}


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x_BVC = torch.randn(8, 4, 6, dtype=torch.float64, generator=generator)
    return x_BVC, torch.randn(8, 3, 4, 5, dtype=torch.float64, generator=generator)


def network() -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 5)).double()
    for parameter in net.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    return net


def divergence(z_BVD: Tensor, first_row: int, **options: Any) -> Tensor:
    """DSF in the batch; what is gathered are the fitted parameters of the keys."""
    similarity = DivergenceSimilarity(0.5, **options)
    keys = similarity.fit(z_BVD[:, 2:])
    assert keys.mean_resultant is not None
    gathered = VonMisesParameters(*(all_gather(part) for part in keys if part is not None))
    return in_batch_loss(similarity(z_BVD[:, :2], gathered), first_row)


def against_a_queue(z_BVD: Tensor) -> Tensor:
    """MoCo: gathered keys, without gradient, are the next batch's negatives."""
    queries_BD, keys_BD = z_BVD[:, 0], z_BVD[:, 1]
    queue_KD = gather_detached(z_BVD[:, 2])
    return queue_info_nce((queries_BD * keys_BD).sum(dim=1), queries_BD @ queue_KD.T)


OBJECTIVES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "InfoNCE": lambda z, row: info_nce(z[:, 0], all_gather(z[:, 1]), 0.5, row),
    "SimCLR": lambda z, row: simclr_loss(all_gather(z), 0.5),
    "DCL": lambda z, row: dcl_loss(all_gather(z), 0.5),
    "DSF": divergence,
    "DSF, exact": lambda z, row: divergence(z, row, mean_length="exact"),
    "DSF, Jeffreys": lambda z, row: divergence(z, row, divergence="jeffreys"),
    "DSF, Renyi": lambda z, row: divergence(z, row, divergence="renyi"),
    "Loss_avg": lambda z, row: loss_average(z[:, :2], all_gather(z[:, 2:]), 0.5, first_row=row),
    "Loss_avg, probabilities": lambda z, row: loss_average(
        z[:, :2], all_gather(z[:, 2:]), 0.5, first_row=row, mean="probabilities"
    ),
    "Feature_avg": lambda z, row: in_batch_loss(feature_average_similarity(z[:, :2], all_gather(z[:, 2:])) / 0.5, row),
    "queue": lambda z, row: against_a_queue(z),
}


def losses_and_gradients(net: nn.Module, x_BVC: Tensor, first_row: int) -> dict[str, tuple[Tensor, list[Tensor]]]:
    """Every objective on one forward pass through the network, with the gradients of its parameters."""
    z_BVD = net(x_BVC.flatten(0, 1)).view(*x_BVC.shape[:2], -1)
    found = {}
    for name, objective in OBJECTIVES.items():
        loss = objective(z_BVD, first_row)
        found[name] = loss.detach(), list(torch.autograd.grad(loss, list(net.parameters()), retain_graph=True))
    return found


def worker(index: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=index, world_size=world)
    assert rank() == index and world_size() == world
    x_BVC, images = (part.chunk(world)[index].clone().requires_grad_() for part in inputs())
    net = convert_batch_norm(network())
    found = losses_and_gradients(net, x_BVC, index * x_BVC.shape[0])
    for loss, gradients in found.values():
        for part in [loss, *gradients]:  # what DistributedDataParallel does
            dist.all_reduce(part)
            part /= world
    norm = SynchronizedBatchNorm(3, momentum=None).double()
    normalised = norm(images)
    (normalised**3).sum().backward()
    buffers = [buffer.double().clone() for buffer in [*norm.buffers(), *net.buffers()]]
    results: dict[str, Any] = {
        "found": found,
        "normalised": normalised.detach(),
        "images_grad": images.grad,
        "buffers": buffers,
        "gathered": gather_detached(x_BVC),
        "half": norm(images.detach().to(torch.bfloat16)).dtype,
    }
    torch.save(results, f"{folder}/{index}.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize("world", [2, 4])
def test_value_and_gradient_equal_one_process(world: int, tmp_path: Path) -> None:
    mp.spawn(worker, args=(world, str(tmp_path)), nprocs=world)
    parts = [torch.load(tmp_path / f"{index}.pt") for index in range(world)]

    x_BVC, images = inputs()
    images.requires_grad_()
    net = network()
    wanted = losses_and_gradients(net, x_BVC, 0)
    norm = nn.BatchNorm2d(3, momentum=None).double()
    normalised = norm(images)
    (normalised**3).sum().backward()
    wanted_buffers = [buffer.double() for buffer in [*norm.buffers(), *net.buffers()]]
    torch.testing.assert_close(torch.cat([part["normalised"] for part in parts]), normalised.detach(), **CLOSE)
    torch.testing.assert_close(torch.cat([part["images_grad"] for part in parts]), images.grad, **CLOSE)
    for part in parts:
        for name, want in wanted.items():
            torch.testing.assert_close(part["found"][name], want, **CLOSE, msg=lambda text, n=name: f"{n}: {text}")
        torch.testing.assert_close(part["buffers"], wanted_buffers, **CLOSE)
        assert torch.equal(part["gathered"], x_BVC) and part["half"] == torch.bfloat16


def test_one_process() -> None:
    x_BVC, images = inputs()
    assert all_gather(x_BVC) is x_BVC and torch.equal(gather_detached(x_BVC), x_BVC)
    norm = convert_batch_norm(nn.BatchNorm2d(3).double())
    assert isinstance(norm, SynchronizedBatchNorm)
    torch.testing.assert_close(norm(images), nn.BatchNorm2d(3).double()(images))
    with pytest.raises(ValueError, match="scalar"):
        gather_detached(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"x must have shape \(N, 3, ...\)"):
        norm(x_BVC)
