"""The floors: imports only ever point down, and the mathematics needs torch and the standard library alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {"hyperspherical": 0, "data_prep": 1, "pipelines": 2, "benchmarks": 3}
SOURCES = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]


def imported_packages(path: Path) -> set[str]:
    """Top-level packages that a file imports anywhere in it; relative imports stay inside and do not count."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    above = {floor for floor, height in FLOORS.items() if height > FLOORS[own]}
    assert not imported_packages(path) & (above | {"tests"})


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if p.is_relative_to(ROOT / "hyperspherical")], ids=lambda p: p.name
)
def test_mathematics_imports_torch_and_the_standard_library_alone(path: Path) -> None:
    assert imported_packages(path) <= {"torch", "hyperspherical", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", [p for p in SOURCES if p.is_relative_to(ROOT / "data_prep")], ids=lambda p: p.name)
def test_data_floor_knows_no_ray(path: Path) -> None:
    assert "ray" not in imported_packages(path)


def test_the_library_imports_nothing_of_the_other_floors() -> None:
    code = (
        "import sys, hyperspherical, hyperspherical.losses, hyperspherical.methods, hyperspherical.metrics;"
        "heavy = {'ffcv', 'ray', 'accelerate', 'tyro', 'pandas', 'matplotlib', 'data_prep', 'pipelines'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_file_is_small_enough_to_read() -> None:
    too_long = {str(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in too_long.items() if lines > 400} == {}


def test_cluster_file_passes_rays_own_validation() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    validate_config(prepare_config(config))
    instance_keys = {"InstanceType", "InstanceMarketOptions", "BlockDeviceMappings", "ImageId", "IamInstanceProfile"}
    for node in config["available_node_types"].values():
        assert set(node["node_config"]) <= instance_keys
