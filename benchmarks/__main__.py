"""`python -m benchmarks NAME`: one table, measured in one run on an otherwise quiet machine."""

import sys
from importlib import import_module

BENCHMARKS = ("accuracy", "loading", "objectives", "search")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in BENCHMARKS:
        print(f"usage: python -m benchmarks {'|'.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    # Only what is asked for: importing ffcv, for one, leaves torch with a single thread.
    import_module(f"benchmarks.{arguments[0]}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
