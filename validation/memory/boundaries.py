"""The largest sequence or microbatch that runs on a card (boundaries.csv), next to `panpipe estimate --largest`."""

import json
import os
import statistics

from answers import answer, table

from . import scenario, study

COLUMNS = [
    *("case", "torch", "of", "card_mib", "largest", "next", "runs"),
    *("allocated", "reserved", "retries", "reserved_with_room"),  # of the largest; the last one on a card with room
]
STEPS = {"micro": 1, "sequence": 64}  # as `panpipe estimate --largest` takes them
WANTED = 5  # %
ROOM = 32768  # MiB
CHECKED = "gpt-t-amp-micro-2gib"  # measured again by --check


def cases():
    """Name and settings of each case: a line of runs.json for each of its cards."""
    listed = json.loads((study.HERE / "runs.json").read_text(encoding="utf-8"))
    found = {}
    for line in listed["boundaries"]:
        own = {key: value for key, value in line.items() if key not in ("case", "cards_gib")}
        for gib in line["cards_gib"]:
            settings = {**study.DEFAULTS, **listed["models"][line["model"]], **own, "card_mib": 1024 * gib}
            found[f"{line['case']}-{line['of']}-{gib}gib"] = settings
    return found


def bisect(start, step, runs):
    """The largest multiple of `step` that runs, where the next one does not: from `start` by doubling or halving, then by halves.
    0 where not even one step runs."""
    value = max(1, start // step)
    if runs(value * step):
        low, high = value, 2 * value
        while runs(high * step):
            low, high = high, 2 * high
    else:
        low, high = value // 2, value
        while low > 0 and not runs(low * step):
            low, high = low // 2, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(middle * step) else (low, middle)
    return low * step


def outcome(settings, value):
    """(it runs, figures of the rank that allocates most)."""
    rows = study.run_one({**settings, settings["of"]: value})
    outcomes = {row["outcome"] for row in rows}
    if not outcomes <= {"ran", "out of memory"}:
        raise RuntimeError(f"{settings['of']} {value}: {', '.join(sorted(outcomes))}")
    return outcomes == {"ran"}, max(rows, key=lambda row: row["allocated"])


def find(name, settings, torch_version):
    tried = {}

    def runs(value):
        tried[value] = outcome(settings, value)
        return tried[value][0]

    step = STEPS[settings["of"]]
    largest = bisect(settings[settings["of"]], step, runs)
    if largest == 0:
        raise RuntimeError(f"{name}: the smallest does not fit, so there is no boundary")
    fits = tried[largest][1]
    _, with_room = outcome({**settings, "card_mib": ROOM}, largest)
    return {
        **{"case": name, "torch": torch_version, "of": settings["of"], "card_mib": settings["card_mib"]},
        **{"largest": largest, "next": largest + step, "runs": len(tried)},
        **{what: fits[what] for what in ("allocated", "reserved", "retries")},
        "reserved_with_room": with_room["reserved"],
    }


def make(path, pattern, again):
    """Measures what `path` lacks of the cases whose name contains `pattern`, or all of these `again`. Yields rows."""
    import torch

    from . import measure  # noqa: F401 (before the forks, so that every run finds it)

    order = list(cases())
    rows = {row["case"]: row for row in study.read(path) if row["case"] in order}
    for name, settings in cases().items():
        if pattern not in name or (name in rows and not again):
            continue
        rows[name] = find(name, settings, torch.__version__)
        study.write(path, (rows[each] for each in order if each in rows), COLUMNS)
        yield rows[name]


def check(path):
    """Runs both sides of CHECKED again. Yields (name, what differs from the row of `path`), as study.check does."""
    row = next(row for row in study.read(path) if row["case"] == CHECKED)
    settings, differing = cases()[CHECKED], []
    for column, expected in (("largest", True), ("next", False)):
        ran, figures = outcome(settings, int(row[column]))
        if ran != expected:
            differing.append(f"{row['of']} {row[column]} {'ran' if ran else 'is out of memory'}")
        elif ran:
            pairs = ((what, str(figures[what])) for what in ("allocated", "reserved", "retries"))
            differing += [f"{what} is {got}, in {path.name} {row[what]}" for what, got in pairs if got != row[what]]
    yield CHECKED, differing


def ask(settings, program, *more):
    """`panpipe estimate` of the case on its card, all of which a process may use, as on the stand-in."""
    described = scenario.describe(settings)
    described["cluster"]["device"]["memory"] = f"{settings['card_mib']} MiB"
    described["cluster"]["usable"] = "100 %"
    return answer(program, "estimate", described, (), *more, codes=(0, 1))


def predicted_largest(document):
    largest = document["devices"][0]["largest"]
    return largest["value"] if largest else 0


def error(predicted, measured):
    """In %."""
    return 100 * (predicted / measured - 1)


def lines_of(found):
    """Of pairs (row, predicted largest)."""
    errors, rows = [error(predicted, int(row["largest"])) for row, predicted in found], []
    for (row, predicted), off in zip(found, errors):
        reserved = (f"{int(row[what]) / 2**20:.0f}" for what in ("reserved", "reserved_with_room"))
        rows.append((row["case"], row["largest"], predicted, f"{off:+.1f}", *reserved, row["retries"]))
    lines = [*table(["case", "measured", "predicted", "off by %", "reserved", "with room", "given back"], rows)]
    sizes = [abs(off) for off in errors]
    worst = max(errors, key=abs)
    within = sum(size <= WANTED for size in sizes)
    lines.append(f"\nmean {statistics.mean(sizes):.1f} %, worst {worst:+.1f} %, {within} of {len(sizes)} within {WANTED} %")
    return lines


def predicted_bytes(row, program):
    """Allocated and reserved bytes that the estimate has at the measured boundary; on a card of any size they are the same."""
    document = ask({**cases()[row["case"]], row["of"]: int(row["largest"])}, program)
    context = max(each["parts"].get("context", 0) for each in document["memory"])  # cuBLAS's workspace, which PyTorch counts
    return [document["metrics"][f"{what}_memory_bytes"] + context for what in ("allocated", "reserved")]


def causes(found, figures):
    """Memory at the measured boundaries: how far it is off in all, and MiB of the cases that are further off than WANTED."""
    for number, what in enumerate(("allocated", "reserved_with_room")):
        errors = [error(each[number], int(row[what])) for (row, _), each in zip(found, figures)]
        yield f"{what} at the boundary: mean {statistics.mean(map(abs, errors)):.1f} %, worst {max(errors, key=abs):+.1f} %"
    for (row, predicted), (allocated, reserved) in zip(found, figures):
        if abs(error(predicted, int(row["largest"]))) > WANTED:
            measured = [int(row[what]) / 2**20 for what in ("allocated", "reserved_with_room")]
            yield (
                f"{row['case']} at {row['largest']}: allocated {measured[0]:.0f} MiB, predicted {allocated / 2**20:.0f}; "
                f"reserved with room {measured[1]:.0f}, predicted {reserved / 2**20:.0f}"
            )


def report(path, pattern, root):
    program = os.environ.get("PANPIPE", root / "build/release/bin/panpipe")
    listed = cases()
    rows = [row for row in study.read(path) if pattern in row["case"] and row["case"] in listed]
    found = [(row, predicted_largest(ask(listed[row["case"]], program, "--largest", row["of"]))) for row in rows]
    figures = [predicted_bytes(row, program) for row in rows]
    print("\n".join([*lines_of(found), "", *causes(found, figures)]))
