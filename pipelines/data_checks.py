"""Names in a configuration that only the data floor can judge."""

from pathlib import Path

from .config import ConfigurationError, nearest
from .config import Data as DataConfig


def check_dataset(name: str, root: str | Path) -> None:
    """Raises `ConfigurationError` with the nearest names for a data set not in the catalogue nor prepared in `root`.

    The second is how a user's own images come in: `prepare NAME --source DIR`.
    """
    from data_prep.catalogue import CATALOGUE

    key = name.replace("-", "_")
    if key not in CATALOGUE and not (Path(root) / key).is_dir():
        close = nearest(key, list(CATALOGUE)) or "; `hyperspherical prepare --list` lists all"
        raise ConfigurationError([f"there is no data set {name!r}{close}"])


def check_data(data: DataConfig, root: str | Path) -> None:
    """Raises `ConfigurationError` for a data set, labels or augmentation presets that do not exist."""
    from data_prep.augment import PRESETS
    from data_prep.catalogue import CATALOGUE
    from data_prep.prepared import check_prepared, described_entry

    check_dataset(data.name, root)
    found = []
    named = [*(preset for preset, _ in data.train_views), data.evaluation_view]
    for preset in dict.fromkeys(named):
        if preset not in PRESETS:
            close = nearest(preset, list(PRESETS)) or f"; allowed: {', '.join(PRESETS)}"
            found.append(f"there is no augmentation preset {preset!r}{close}")
    for preset, count in data.train_views:
        if count < 1:
            found.append(f"data.train_views has {count} views of {preset}, allowed is at least 1")
    try:
        known = CATALOGUE.get(data.name.replace("-", "_"))
        (known or described_entry(check_prepared(Path(root), data.name))).classes_of(data.labels)
    except ValueError as error:
        found.append(f"data.labels: {error}")
    if found:
        raise ConfigurationError(found)
