"""The command line: `hyperspherical COMMAND`, the same as `python -m pipelines COMMAND`.

Exit code 0 is success, 2 a wrong use, 1 a failed run.
"""

import sys

from data_prep.beton import BetonError

from .command_line import Failure
from .commands import COMMANDS, fail, usage
from .config import ConfigurationError, nearest


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; faults are told in one line each."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("--help", "-h"):
        print(usage())
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in COMMANDS:
        return fail(2, [f"there is no command {name!r}{nearest(name, list(COMMANDS)) or '; --help lists all'}"])
    try:
        return COMMANDS[name](rest)
    except ConfigurationError as error:
        return fail(2, error.faults)
    except (Failure, BetonError) as error:
        return fail(1, [str(error)])
    except KeyboardInterrupt:
        return fail(130, ["interrupted; the same command continues where this one stopped"])


if __name__ == "__main__":
    sys.exit(main())
