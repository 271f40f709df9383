"""Time and memory of the objectives beside a softmax of cosines written inline, and beside themselves written plainly.

Forward and backward, medians of rounds in which every contender takes its turn; `plain` holds the plain versions.
Memory on a CPU is the growth of a fresh process's peak; on a GPU the peak of what torch allocated.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hyperspherical import losses
from hyperspherical.similarity import DivergenceSimilarity, VonMisesParameters, feature_average_similarity
from hyperspherical.sphere import normalize

from . import plain

SHAPES = ((130, 3, 10), (260, 128, 10), (256, 128, 100), (128, 512, 83), (64, 512, 9620))  # B, n, Y
OBJECTIVES = ("STANDARD", "COSINE", "ARCFACE", "HYPERBOLIC", "VMF")
DRAWS = 10
QUEUES = ((256, 4, 128, 4096), (256, 4, 128, 65536))  # B, views per encoder, D, K
BATCHES = ((128, 4, 256, 128), (512, 4, 256, 512), (2048, 4, 256, 2048))  # the same: the keys are the batch's own
SECONDS, FEWEST, MOST = 1.5, 5, 300  # of the rounds of one table
PEAKS = (*SHAPES[2::2], BATCHES[-1], QUEUES[-1])  # where memory is measured: a process for each number
MOST_BYTES = 2e9

Shape = tuple[int, ...]


class Contender(NamedTuple):
    forward: Callable[[], Tensor]
    leaves: list[Tensor]
    """tensors that get a gradient"""


class Mode(NamedTuple):
    device: str
    autocast: bool = False
    compiled: bool = False

    def __str__(self) -> str:
        return f"{self.device}, {'bfloat16 autocast' if self.autocast else 'float32'}{', compiled' * self.compiled}"


def main() -> None:
    """Prints a table per shape: on a GPU eager and compiled, in float32 and under autocast; else on the CPU."""
    on_gpu = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads on the CPU, S = {DRAWS} draws")
    print(f"medians of {FEWEST} to {MOST} rounds, about {SECONDS} s a table; peak memory of one forward and backward")
    modes = [Mode("cpu")]
    if on_gpu:
        modes = [Mode("cuda", autocast, compiled) for autocast in (False, True) for compiled in (False, True)]
    for mode in modes:
        for shape in SHAPES:
            softmax_table(shape, mode)
        for shape in (*BATCHES, *QUEUES):
            similarity_table(shape, mode)
        training_step_table(mode)


def softmax_table(shape: Shape, mode: Mode) -> None:
    peers = {"inline": ""} | {name: "inline" if name == "COSINE" else f"plain {name}" for name in OBJECTIVES}
    if 6 * 4 * shape[0] * shape[1] * shape[2] > MOST_BYTES:  # six tensors (B, Y, n) at least
        peers["HYPERBOLIC"] = ""
    table("(B, n, Y)", "softmax", peers, shape, mode)


def similarity_table(shape: Shape, mode: Mode) -> None:
    kind = "queue" if shape in QUEUES else "keys in the batch"
    table(f"{kind}, (B, V_e, D, K)", "similarity", {"Feature_avg": "", "DSF": "plain DSF"}, shape, mode)


def table(title: str, family: str, peers: dict[str, str], shape: Shape, mode: Mode) -> None:
    """One line per key of `peers`, whose first is the yardstick and whose values are the plain versions."""
    yardstick, *_ = peers
    names = list(dict.fromkeys([*peers, *filter(None, peers.values())]))
    times, rounds = measured({name: FAMILIES[family](name, shape, mode) for name in names}, mode)
    print(f"\n{title} = {shape}: {mode}, {rounds} rounds")
    print(f"{'':12}{'ms':>10}{'/ ' + yardstick:>14}{'/ plain':>10}{'MiB':>10}{'plain MiB':>10}")
    for name, peer in peers.items():
        ratio = f"{times[name] / times[peer]:.2f}" if peer else ""
        memory = [f"{peak(family, one, shape, mode):.0f}" if one and shape in PEAKS else "" for one in (name, peer)]
        beside = times[name] / times[yardstick]
        print(f"{name:12}{times[name]:10.3f}{beside:14.2f}{ratio:>10}{memory[0]:>10}{memory[1]:>10}", flush=True)


def training_step_table(mode: Mode) -> None:
    times, rounds = measured({name: training_step(name, mode) for name in ("COSINE", "VMF")}, mode)
    print(f"\ntraining step of the 28 x 28 network, batch 130, SGD: {mode}, {rounds} rounds")
    for name, milliseconds in times.items():
        print(f"{name:12}{milliseconds:10.3f}{milliseconds / times['COSINE']:10.2f}")


def measured(contenders: dict[str, Contender], mode: Mode) -> tuple[dict[str, float], int]:
    """Median milliseconds of each contender, and the number of rounds."""
    steps = {name: (lambda one=contender: run(one, mode)) for name, contender in contenders.items()}
    for _ in range(3):
        start = time.perf_counter()
        for step in steps.values():
            step()
        length = time.perf_counter() - start
    rounds = min(MOST, max(FEWEST, int(SECONDS / length)))
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    return {name: 1e3 * median(taken) for name, taken in seconds.items()}, rounds


def run(contender: Contender, mode: Mode) -> None:
    for leaf in contender.leaves:
        leaf.grad = None
    with autocast(mode):
        loss = contender.forward()
    loss.backward()
    if mode.device == "cuda":
        torch.cuda.synchronize()


def autocast(mode: Mode) -> AbstractContextManager[object]:
    return torch.autocast(mode.device, dtype=torch.bfloat16, enabled=mode.autocast)


def peak(family: str, name: str, shape: Shape, mode: Mode) -> float:
    """MiB at the peak of two steps, on top of torch itself; on a GPU with the tensors the contender holds."""
    if mode.device == "cuda":
        contender = FAMILIES[family](name, shape, mode)
        run(contender, mode)
        torch.cuda.reset_peak_memory_stats()
        run(contender, mode)
        return torch.cuda.max_memory_allocated() / 2**20
    code = f"from benchmarks.objectives import growth; print(growth({family!r}, {name!r}, {shape}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def growth(family: str, name: str, shape: Shape) -> float:
    """MiB by which two steps raise this process's peak; the same steps on tiny input have warmed torch up."""
    mode = Mode("cpu")
    tiny = (4, 3, 5) if family == "softmax" else (4, 2, 16, 4)
    run(FAMILIES[family](name, tiny, mode), mode)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now
    before = highest_resident()
    contender = FAMILIES[family](name, shape, mode)
    run(contender, mode)
    run(contender, mode)
    return highest_resident() - before


def highest_resident() -> float:
    """MiB. Not getrusage's ru_maxrss, which a process inherits from its parent and cannot reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def softmax(name: str, shape: Shape, mode: Mode) -> Contender:
    batch, dim, classes = shape
    torch.manual_seed(0)
    x = torch.randn(batch, dim, device=mode.device, requires_grad=True)
    labels = torch.randint(classes, (batch,), device=mode.device)
    ratio = 0.7 if dim == 512 else 0.4
    if name in OBJECTIVES:
        loss = objective(name, classes, dim, ratio).to(mode.device)
        if isinstance(loss, losses.VonMisesFisherLoss):
            loss.estimate_embedding_scale(x.detach())
        forward = torch.compile(loss) if mode.compiled else loss
        return Contender(lambda: forward(x, labels), [x, *loss.parameters()])
    tau = torch.zeros((), device=mode.device, requires_grad=True)
    w, p = (torch.randn(classes, dim, device=mode.device) for _ in range(2))
    if name == "plain VMF":
        kappa = losses.concentration_for_ratio(ratio, dim)
        w = w * (kappa / dim**0.5)
        x = (x.detach() * losses.embedding_scale(x.detach(), ratio)).requires_grad_()
    parameters = {"plain STANDARD": [w], "plain HYPERBOLIC": [w, p]}.get(name, [w, tau])
    leaves = [x, *(parameter.requires_grad_() for parameter in parameters)]
    function = compiled({
        "inline": plain.cosine, "plain STANDARD": plain.standard, "plain ARCFACE": plain.arcface,
        "plain HYPERBOLIC": plain.hyperbolic, "plain VMF": plain.vmf,
    }[name], mode)  # fmt: skip
    return Contender(lambda: function(*leaves, labels), leaves)


def objective(name: str, classes: int, dim: int, ratio: float) -> nn.Module:
    if name == "VMF":
        return losses.VonMisesFisherLoss(classes, dim, ratio, num_samples=DRAWS)
    kinds = {
        "STANDARD": losses.SoftmaxLoss, "COSINE": losses.CosineSoftmaxLoss,
        "ARCFACE": losses.ArcFaceLoss, "HYPERBOLIC": losses.HyperbolicSoftmaxLoss,
    }  # fmt: skip
    return kinds[name](classes, dim)


def similarity(name: str, shape: Shape, mode: Mode) -> Contender:
    """Queries with gradient against keys without: a queue, or the other views of the same images."""
    batch, views, dim, count = shape
    torch.manual_seed(0)
    centre = torch.randn(max(batch, count), 1, dim, device=mode.device)
    queries = normalize(centre[:batch] + 0.5 * torch.randn(batch, views, dim, device=mode.device)).requires_grad_()
    labels = torch.arange(batch, device=mode.device)
    dsf = DivergenceSimilarity()
    if shape in QUEUES:
        keys = normalize(centre[:count, 0])

        def average() -> Tensor:
            return F.cross_entropy(normalize(queries).mean(dim=1) @ keys.T / 0.1, labels)

        def divergence() -> Tensor:
            fitted = dsf.fit(queries)
            kappa = fitted.concentration.detach().mean().expand(count)
            return F.cross_entropy(dsf(fitted, VonMisesParameters(keys, kappa)), labels)

        def written_plainly() -> Tensor:
            return plain.dsf(queries, keys, None, labels)
    else:
        keys = normalize(centre[:count] + 0.5 * torch.randn(count, views, dim, device=mode.device))

        def average() -> Tensor:
            return F.cross_entropy(feature_average_similarity(queries, keys) / 0.1, labels)

        def divergence() -> Tensor:
            return F.cross_entropy(dsf(queries, keys), labels)

        def written_plainly() -> Tensor:
            return plain.dsf(queries, *plain.fit(keys)[:2], labels)

    forward = {"Feature_avg": average, "DSF": divergence, "plain DSF": written_plainly}[name]
    return Contender(compiled(forward, mode), [queries])


def training_step(name: str, mode: Mode) -> Contender:
    """A step of the vMF study's MNIST network; the optimizer's step is part of the next forward pass."""
    from pipelines.backbones import digits_cnn

    torch.manual_seed(0)
    encoder = digits_cnn((1, 28, 28), 3).to(mode.device)
    loss = objective(name, 10, 3, 0.4).to(mode.device)
    images = torch.rand(130, 1, 28, 28, device=mode.device)
    labels = torch.randint(10, (130,), device=mode.device)
    optimizer = torch.optim.SGD([*encoder.parameters(), *loss.parameters()], lr=1e-3, momentum=0.9)
    if isinstance(loss, losses.VonMisesFisherLoss):
        loss.estimate_embedding_scale(encoder(images).embedding_BD.detach())
    network = compiled(lambda: loss(encoder(images).embedding_BD, labels), mode)

    def forward() -> Tensor:
        optimizer.step()
        optimizer.zero_grad()
        return network()

    return Contender(forward, [])


def compiled(function: Callable[..., Tensor], mode: Mode) -> Callable[..., Tensor]:
    return torch.compile(function) if mode.compiled else function


FAMILIES = {"softmax": softmax, "similarity": similarity}
