"""`python -m benchmarks NAME`: one table, measured in one run on an otherwise quiet machine."""

import sys

from . import loading, search

BENCHMARKS = {"loading": loading.main, "search": search.main}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in BENCHMARKS:
        print(f"usage: python -m benchmarks {'|'.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    BENCHMARKS[arguments[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
