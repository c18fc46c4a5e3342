"""`python -m panpipe.capture [--world N] TRAINER ARGUMENTS...` prints the trainer's resolved configuration as JSON."""

from __future__ import annotations

import contextlib
import json
import sys

from . import TRAINERS, capture
from .document import CannotCapture
from .quiet import Refused, prepare_environment, refuse_effects

_USAGE = f"""usage: python -m panpipe.capture [--world N] TRAINER ARGUMENTS...

Prints as JSON what TRAINER makes of its own ARGUMENTS; `panpipe import TRAINER FILE` reads it. Run it with the
trainer's own Python. No GPU, data or weights are touched, and nothing is fetched, started or written.

  TRAINER    {', '.join(TRAINERS)}
  --world N  the number of ranks, where the arguments leave it open (default: WORLD_SIZE of the environment)
"""


def _fault(message: str, exit_code: int) -> int:
    print(f"panpipe.capture: {message}", file=sys.stderr)
    return exit_code


def main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_USAGE, end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    world = prepare_environment()
    if words[0] == "--world":
        if len(words) < 3 or not words[1].isdecimal() or int(words[1]) < 1:
            return _fault("--world is followed by a number of ranks and a trainer", 2)
        world, words = int(words[1]), words[2:]
    refuse_effects()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # where trainers print, too
            document = capture(words[0], words[1:], world).document()
    except CannotCapture as fault:
        return _fault(str(fault), fault.exit_code)
    except Refused as fault:
        return _fault(f"{words[0]} does more than resolve its configuration: {fault}", 2)
    except (ValueError, TypeError, AssertionError, KeyError, OSError, NotImplementedError) as fault:
        return _fault(f"{words[0]} refuses its arguments: {type(fault).__name__}: {fault}", 2)
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
