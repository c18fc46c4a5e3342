"""What a property is: a demand that two predictions must satisfy, with its tolerance and why. A property draws a change of a scenario
that it applies to, and judges the answers.

A property that does not apply to a scenario raises NotApplicable; a change that the program refuses in words raises Refused. Neither
counts as a comparison. Hypothesis draws the cases and makes small what breaks a property.
"""

import dataclasses

from hypothesis import strategies as st

import generator
from generator import chance
from program import Call, Refused, get

# Every task's time is rounded once to a whole picosecond: a step of 1 ms over a path of 1,000 tasks may differ by 1 ns.
ROUNDED = 1e-6
# The same tasks with the same times, added in another order by another engine.
SAME = 1e-9
# Bytes: each part of a device's memory is rounded once.
BYTES = 16
TRIES = 6  # of a case, until its scenario is one that the program accepts


class NotApplicable(Exception):
    pass


def need(condition):
    if not condition:
        raise NotApplicable


@dataclasses.dataclass
class Finding:
    calls: list
    figures: str


PROPERTIES = []


class Property:
    """One demand; a class with a name joins PROPERTIES. `draw` gives the parameters of a change (a dict); `judge` takes them and the
    scenario, and gives a Finding when the demand is broken."""

    name = claim = tolerance = ""
    hints = {}
    weight = 1.0  # its share of the cases

    def __init_subclass__(cls):
        if "name" in vars(cls):
            PROPERTIES.append(cls())

    def hinted(self, rng):
        return self.hints

    def draw(self, rng, program, scenario):
        return {}

    def cases(self, program):
        """What Hypothesis draws: a dict with the scenario and all that `judge` needs besides."""
        return drawn_cases(self, program)

    def judge(self, program, scenario):
        raise NotImplementedError


@st.composite
def drawn_cases(draw, prop, program):
    """A scenario that the program prices, and a change of it. What does not go together is drawn again, a few times; then None."""
    for _ in range(TRIES):
        rng = draw(st.randoms(use_true_random=False))
        try:
            scenario = generator.draw(rng, program, prop.hinted(rng))
            program.answer(Call("estimate", scenario))
            return {"scenario": scenario, **prop.draw(rng, program, scenario)}
        except (NotApplicable, Refused):
            continue
    return None


def short(rng, hints, *families):
    """The hints, half of the time narrowed to passes that the host's launches and memory bound: few tokens, one sample."""
    if chance(rng, 0.5):
        return hints
    some = {"family": families} if families and chance(rng, 0.5) else {}
    return {
        **hints,
        **some,
        "kinds": False,
        "model": ("gpt", "gpt", "llama", "bert", "vit"),
        "sequence": (1, 16, 64, 128),
        "micro": (1,),
        "cluster": ("dgx-a100-80g", "dgx-a100-80g", "a100-80g-pcie-x4", "rtx3090x8", "h100x8"),
    }


def engine(rng):
    return {"engine": rng.choice(("estimate", "simulate"))}


# ---- what a scenario states ----------------------------------------------------------------------------------------------------

ONE_STAGE_FAMILIES = ("gpipe", "1f1b", "kfkb", "zb-h1", "zb-h2")  # of which a rank has one stage


def cut(scenario):
    """Stated cuts, or none to make: else `partition: auto` may move with the costs, and orders of tasks with it."""
    return "partition" in scenario or (get(scenario, "parallel.pipeline") == 1 and family(scenario) in ONE_STAGE_FAMILIES)


def family(scenario):
    stated = scenario.get("schedule", "1f1b")
    return stated["name"] if isinstance(stated, dict) else stated


def options(scenario):
    stated = scenario.get("schedule")
    return tuple(sorted((k, v) for k, v in stated.items() if k != "name")) if isinstance(stated, dict) else ()


def order_of(program, scenario):
    return program.order(family(scenario), ranks(scenario)[0], get(scenario, "batch.microbatches"), options(scenario))


def ranks(scenario):
    p = scenario.get("parallel", {})
    return p.get("pipeline", 1), p.get("data", 1), p.get("tensor", 1)


def nodes_of(values):
    """Devices of a node, and nodes, of a scenario's resolved values; no devices where the nodes are unlike."""
    return int(values.get("cluster.devices_per_node", 0)), int(values.get("cluster.nodes", 1))


# ---- calls and comparisons of their answers --------------------------------------------------------------------------------------


def estimate(scenario, *more):
    return Call("estimate", scenario, more)


def simulate(scenario, *more):
    return Call("simulate", scenario, ("--backend", "flow", *more))


def made_by(engine, scenario):
    return {"estimate": estimate, "simulate": simulate}[engine](scenario)


def milliseconds(seconds):
    return f"{1e3 * seconds:.6g} ms"


def mib(size):
    return f"{size / 2**20:.2f} MiB"


def not_above(program, less, more, why, tolerance=ROUNDED, key="step_time_s"):
    """A finding when the estimate of the first scenario has a larger figure than that of the second."""
    calls = [estimate(less), estimate(more)]
    a, b = (program.answer(call).metrics[key] for call in calls)
    unit = milliseconds if key == "step_time_s" else mib
    if a > b + (BYTES if key == "peak_memory_bytes" else tolerance * b):
        return Finding(calls, f"{why}: {unit(a)} above {unit(b)}")
    return None


def equal(program, one, other, why, tolerance=SAME):
    """A finding when two scenarios have not the same step and the same memory."""
    calls = [estimate(one), estimate(other)]
    a, b = (program.answer(call) for call in calls)
    if abs(a.step - b.step) > tolerance * a.step:
        return Finding(calls, f"{why}: {milliseconds(a.step)} and {milliseconds(b.step)}")
    if abs(a.peak - b.peak) > BYTES:
        return Finding(calls, f"{why}: {a.peak:.0f} and {b.peak:.0f} bytes")
    return None


def in_sums(scenario):
    """With a factor for what the allocator adds: its replay does not grow evenly with what tensors ask for."""
    given = scenario.get("framework", {})
    return {**scenario, "framework": {**(given if isinstance(given, dict) else {"name": given}), "allocator": "factor"}}


def same_step(program, calls, tolerance, keys=("fits",)):
    """A finding when two answers have not the same step, or another of these figures."""
    a, b = (program.answer(call).metrics for call in calls)
    if abs(a["step_time_s"] - b["step_time_s"]) > tolerance * b["step_time_s"] or any(a[key] != b[key] for key in keys):
        shown = (f"{milliseconds(m['step_time_s'])}, fits {m['fits']}" for m in (a, b))
        return Finding(calls, " against ".join(shown))
    return None


def same_metrics(program, calls, tolerance):
    """A finding when two answers have not the same figures, but for the time that links are shared."""
    a, b = (program.answer(call).metrics for call in calls)
    step = b["step_time_s"]
    for key in (key for key in a if key in b and key not in ("per_device", "contention_s")):
        x, y = a[key], b[key]
        if isinstance(x, str):
            if x != y:
                return Finding(calls, f"{key} {x} against {y}")
            continue
        scale = step if key.endswith("_s") else max(abs(x), abs(y))
        if (abs(x - y) > tolerance * scale + 1e-12) if not isinstance(x, bool) else x != y:
            return Finding(calls, f"{key} {x} against {y}")
    x, y = ([(row["step_time_s"], row["peak_memory_bytes"]) for row in m["per_device"]] for m in (a, b))
    for (s, memory), (other, other_memory) in zip(sorted(x), sorted(y)):
        if abs(s - other) > tolerance * step + 1e-12 or abs(memory - other_memory) > BYTES:
            return Finding(
                calls, f"a device ends at {milliseconds(s)} with {memory} bytes against {milliseconds(other)} with {other_memory}"
            )
    return None
