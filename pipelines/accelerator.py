"""The device, the precision and the random streams of one worker."""

import hashlib
import os
import platform
from importlib.metadata import version
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from .config import Config, ConfigurationError


def start_accelerator(config: Config) -> Accelerator:
    """Accelerate on the configured device; inside a Ray Train worker it joins that worker's process group.

    Raises `ConfigurationError` if a GPU is asked for and there is none.
    """
    has_gpu = torch.cuda.is_available()
    if config.device == "cuda" and not has_gpu:
        raise ConfigurationError(["device is cuda, but PyTorch finds no GPU: allowed here is cpu or auto"])
    on_cpu = config.device == "cpu" or not has_gpu
    precision = config.precision
    if precision == "auto":
        precision = "bf16" if not on_cpu and torch.cuda.is_bf16_supported() else "no"
    if precision == "fp16" and on_cpu:
        raise ConfigurationError(["precision is fp16 on a CPU, allowed there is no or bf16"])
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # A process of a search runs many trials, and Accelerate remembers the first one's choices.
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(cpu=on_cpu, mixed_precision=precision)


def seed_step(seed: int, epoch: int, step: int, worker: int, device: torch.device) -> torch.Generator:
    """Seeds the global generators (dropout, noise) and returns one of its own for a step of one worker."""
    key = hashlib.blake2b(repr((seed, epoch, step, worker)).encode(), digest_size=16).digest()
    torch.manual_seed(int.from_bytes(key[:8], "little") >> 1)
    return torch.Generator(device).manual_seed(int.from_bytes(key[8:], "little") >> 1)


def versions() -> dict[str, str]:
    """What decides bits: the versions of the interpreter and of the libraries that compute."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("hyperspherical", "torch", "torchvision", "accelerate", "ffcv", "numpy")
    }


def hardware(accelerator: Accelerator) -> dict[str, Any]:
    """Where a run ran."""
    on_gpu = accelerator.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(accelerator.device)
        if on_gpu
        else platform.processor() or platform.machine(),
        "workers": accelerator.num_processes,
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "precision": accelerator.mixed_precision,
    }
