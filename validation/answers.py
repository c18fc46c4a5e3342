"""What a study asks of panpipe: one verb on one scenario with settings, answered as a document; and its tables in Markdown."""

import concurrent.futures
import json
import os
import subprocess


class Refused(SystemExit):
    """The program ended with a fault. A study that does not catch it ends in the program's words."""


def answer(program, verb, scenario, settings=(), *further, codes=(0,)):
    """The document that `program verb scenario --json` prints, where it ends with one of `codes`. The scenario: a map in the form of
    its file, the text of one, or a path."""
    text = json.dumps(scenario) if isinstance(scenario, dict) else scenario if "\n" in str(scenario) else None
    words = [program, verb, "-" if text else scenario, "--json", *further]
    for setting in settings:
        words += ["--set", setting]
    words = [str(word) for word in words]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise Refused(done.stderr.strip() or f"{' '.join(words)} ended with exit code {done.returncode}")
    return json.loads(done.stdout)


def answer_all(program, verb, scenarios):
    """Of each scenario, in their order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(lambda scenario: answer(program, verb, scenario), scenarios))


def first_line(refused):
    return str(refused).splitlines()[0]


def table(columns, rows):
    """The lines of a table as its rows come."""
    yield f"| {' | '.join(columns)} |".replace("|  |", "| |")
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
