"""Makes `.venv` ready: system libraries, virtual environment, pinned packages. A second run does nothing.

python3 packaging/bootstrap.py                 everything that `make demo` and `make test` need
python3 packaging/bootstrap.py fashion-mnist   also tries to install Debian's package of the Fashion-MNIST images
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PINS = [ROOT / "pyproject.toml", ROOT / "packaging" / "constraints.txt", ROOT / "packaging" / "ffcv" / "opencv4.pc"]
INSTALLERS = ["pip==26.3", "uv==0.13.8"]
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


def main(wishes: list[str]) -> None:
    if sys.version_info < (3, 11):
        stop(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: run make PYTHON=/path/to/python3.11")
    if any(character.isspace() for character in str(ROOT)):
        stop(f"FFCV cannot be built below a path with a space in it ({ROOT}): move the checkout and run make again")
    install_system_libraries()
    install_python_packages()
    if "fashion-mnist" in wishes and not FASHION_MNIST.exists() and can_install():
        # Never fatal: without the package, `prepare` downloads the images or takes them from --source.
        subprocess.run(["apt-get", "install", "-y", "-qq", "dataset-fashion-mnist"], stdout=subprocess.DEVNULL)


def install_system_libraries() -> None:
    missing = missing_packages()
    if not missing:
        return
    if not can_install():
        how = (
            "as root"
            if shutil.which("apt-get")
            else "(names of Debian's packages: install what your system calls them)"
        )
        stop(
            f"missing system libraries; run this {how}: apt-get install -y --no-install-recommends {' '.join(missing)}"
        )
    say(f"installing system libraries: {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        if subprocess.run(["apt-get", *command], env=environment, stdout=subprocess.DEVNULL).returncode:
            stop(f"apt-get {' '.join(command)} failed: its message is above")
    if still := missing_packages():
        stop(f"apt-get reported success, but these are still missing: {' '.join(still)}")


def missing_packages() -> list[str]:
    """Debian's names for what building FFCV and a virtual environment needs and this machine lacks."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    headers = [Path("/usr/include"), Path("/usr/include") / multiarch, Path("/usr/local/include")]

    def has_header(name: str) -> bool:
        return any((folder / name).exists() for folder in headers)

    present = {
        "gcc": shutil.which("gcc") is not None,
        "g++": shutil.which("g++") is not None,
        "pkg-config": shutil.which("pkg-config") is not None,
        "libturbojpeg0-dev": has_header("turbojpeg.h"),
        "libopencv-imgproc-dev": has_header("opencv4/opencv2/imgproc.hpp"),
        "python3-dev": (Path(sysconfig.get_paths()["include"]) / "Python.h").exists(),
        "python3-venv": importlib.util.find_spec("ensurepip") is not None,
        "ca-certificates": Path("/etc/ssl/certs").exists(),
    }
    return [name for name, found in present.items() if not found]


def can_install() -> bool:
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install_python_packages() -> None:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in PINS)).hexdigest()
    stamp = VENV / "hyperspherical-packages.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    start = time.monotonic()
    say("creating .venv and installing the pinned packages (about 3 GB to download the first time)")
    if not (VENV / "bin" / "pip").exists():
        run([sys.executable, "-m", "venv", "--clear", str(VENV)])
    run([str(VENV / "bin" / "pip"), "install", "--quiet", *INSTALLERS])
    # Without compiled bytecode every Ray worker would compile torch anew.
    install = ["pip", "install", "--quiet", "--compile-bytecode", "-c", "packaging/constraints.txt", "-e", ".[dev]"]
    pkg_config_path = os.pathsep.join(
        filter(None, [str(ROOT / "packaging" / "ffcv"), os.environ.get("PKG_CONFIG_PATH")])
    )
    run([str(VENV / "bin" / "uv"), *install], {"VIRTUAL_ENV": str(VENV), "PKG_CONFIG_PATH": pkg_config_path})
    stamp.write_text(digest)
    say(f"packages installed in {time.monotonic() - start:.0f} s")


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    if code := subprocess.run(command, cwd=ROOT, env={**os.environ, **(environment or {})}).returncode:
        stop(f"this command failed with exit code {code}, its message is above: {' '.join(command)}")


def say(message: str) -> None:
    print(f"set-up: {message}", flush=True)


def stop(message: str) -> None:
    sys.exit(f"set-up: {message}")


if __name__ == "__main__":
    main(sys.argv[1:])
