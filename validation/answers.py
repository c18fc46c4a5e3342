"""What a study asks of panpipe: one verb on one scenario with settings, answered as a document."""

import json
import subprocess
import sys


def answer(program, verb, scenario, settings=(), *further):
    """The document that `program verb scenario --json` prints; ends the study, in words, where the program ends with a fault."""
    words = [program, verb, scenario, "--json", *further]
    for setting in settings:
        words += ["--set", setting]
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)
