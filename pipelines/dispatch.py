"""From the name of a command to its function, and from exceptions to exit codes."""

import os

from data_prep.beton import BetonError

from .command_line import Failure
from .commands import COMMANDS, fail, usage
from .config import ConfigurationError, nearest


def run(arguments: list[str]) -> int:
    """Runs one command: 0 is success, 2 a wrong use, 1 a failed run; faults are one line each on stderr."""
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
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return fail(
            1, [f"{where}{error.strerror or error}; what was written before is whole, and the same command continues"]
        )
    except ValueError as error:
        # Sentences of the lower floors about values that no configuration check could know.
        if os.environ.get("HYPERSPHERICAL_DEBUG"):
            raise
        return fail(2, [f"{error} (HYPERSPHERICAL_DEBUG=1 shows where)"])
    except KeyboardInterrupt:
        return fail(130, ["interrupted; the same command continues where this one stopped"])
