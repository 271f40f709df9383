"""Schedules against the formulas of the papers."""

import math

import pytest
import torch

from pipelines.config import HalfCosine, Plateau, RampUpDown
from pipelines.optimization import build_schedule


def sgd(*rates: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(()))], "lr": rate} for rate in rates])


def test_plateau_halves_all_rates_on_the_sixteenth_epoch_without_improvement() -> None:
    optimizer = sgd(0.1, 0.001)
    schedule = build_schedule(optimizer, Plateau(factor=0.5, patience=15), epochs=1000)
    schedule.end_epoch(0.9)
    for _ in range(15):
        schedule.end_epoch(0.9)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.001]
    schedule.end_epoch(0.9)
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.0005]


def test_plateau_continues_from_its_state() -> None:
    first, second = sgd(0.1), sgd(0.1)
    whole = build_schedule(first, Plateau(factor=0.5, patience=1), epochs=10)
    for accuracy in (0.5, 0.5):
        whole.end_epoch(accuracy)
    continued = build_schedule(second, Plateau(factor=0.5, patience=1), epochs=10)
    continued.load_state_dict(whole.state_dict())
    whole.end_epoch(0.5)
    continued.end_epoch(0.5)
    assert first.param_groups[0]["lr"] == second.param_groups[0]["lr"] == 0.05


def test_half_cosine_counts_epochs_from_one_and_ends_at_zero() -> None:
    optimizer = sgd(0.06)
    schedule = build_schedule(optimizer, HalfCosine(), epochs=250)
    for epoch, expected in ((0, 0.5 * (1 + math.cos(math.pi / 250))), (124, 0.5), (249, 0.0)):
        schedule.start_epoch(epoch)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.06 * expected, abs=1e-12)


def test_amc_ramps_of_the_rate_and_of_beta1() -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(()))], lr=0.003, betas=(0.9, 0.999))
    schedule = build_schedule(optimizer, RampUpDown(ramp_up_epochs=80, ramp_down_epochs=50), epochs=300)
    expected = {
        0: (math.exp(-5), 0.9),
        40: (math.exp(-5 / 4), 0.9),
        80: (1.0, 0.9),
        249: (1.0, 0.9),
        275: (math.exp(-12.5 / 4), math.exp(-12.5 / 4) * 0.4 + 0.5),
    }
    for epoch, (factor, beta1) in expected.items():
        schedule.start_epoch(epoch)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.003 * factor)
        assert optimizer.param_groups[0]["betas"] == pytest.approx((beta1, 0.999))
