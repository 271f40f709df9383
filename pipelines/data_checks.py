"""Names in a configuration that only the data floor can judge."""

from .config import ConfigurationError, nearest
from .config import Data as DataConfig


def check_dataset(name: str) -> None:
    """Raises `ConfigurationError` with the nearest names for a data set that the catalogue lacks."""
    from data_prep.catalogue import CATALOGUE

    if name.replace("-", "_") not in CATALOGUE:
        close = nearest(name.replace("-", "_"), list(CATALOGUE)) or "; `hyperspherical prepare --list` lists all"
        raise ConfigurationError([f"there is no data set {name!r}{close}"])


def check_data(data: DataConfig) -> None:
    """Raises `ConfigurationError` for a data set or an augmentation preset that does not exist."""
    from data_prep.augment import PRESETS

    check_dataset(data.name)
    named = [*(preset for preset, _ in data.train_views), data.evaluation_view]
    faults = [
        f"there is no augmentation preset {preset!r}{nearest(preset, list(PRESETS)) or f'; allowed: {sorted(PRESETS)}'}"
        for preset in dict.fromkeys(named)
        if preset not in PRESETS
    ]
    faults += [
        f"data.train_views has {count} views of {preset}, allowed is at least 1"
        for preset, count in data.train_views
        if count < 1
    ]
    if faults:
        raise ConfigurationError(faults)
