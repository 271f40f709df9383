"""A tiny real data set, prepared once, and helpers to make others."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.beton import write_beton
from data_prep.catalogue import entry
from data_prep.prepare import prepare
from data_prep.prepared import Split


@pytest.fixture(scope="session")
def prepared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with scikit-learn's digits prepared in it; tests only read it."""
    root = tmp_path_factory.mktemp("prepared")
    prepare("digits", root, log=lambda line: None)
    return root


@pytest.fixture(scope="session")
def colour_split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """400 random images in the shape of CIFAR-100, with fine and coarse labels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (400, 32, 32, 3), np.uint8)
    labels = np.arange(400) % 100
    path = tmp_path_factory.mktemp("colour") / "train_full.beton"
    write_beton(path, images, labels, {"coarse_label": labels // 5})
    return Split(path.parent, "train_full", entry("cifar100"), path, None, 400, {"pixels": images})
