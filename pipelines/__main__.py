"""The command line: `hyperspherical COMMAND`, the same as `python -m pipelines COMMAND`.

Exit code 0 is success, 2 a wrong use, 1 a failed run.
"""

import sys


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; faults are told in one line each."""
    try:
        from .dispatch import run
    except ModuleNotFoundError as error:
        extra = "pip install 'hyperspherical[pipelines]'"
        print(f"hyperspherical: the command line needs {error.name}, which is not installed: {extra}", file=sys.stderr)
        return 1
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
