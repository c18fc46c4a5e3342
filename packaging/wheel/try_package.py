"""try_package.py [torch]: asks the installed package of this Python for what it promises; ends with 1 and the first thing that is wrong.

With `torch` that is imported first, into the same process."""

import importlib.resources
import json
import pathlib
import pydoc
import subprocess
import sys
import time

if sys.argv[1:] == ["torch"]:
    import torch

    print(f"torch {torch.__version__}")
started = time.perf_counter()
import panpipe  # noqa: E402
from panpipe import _core  # noqa: E402

print(
    f"panpipe {panpipe.__version__} in CPython {sys.version.split()[0]}, imported in {1e3 * (time.perf_counter() - started):.0f} ms: {pathlib.Path(_core.__file__).name}"
)
GPT3, GPT2 = "examples/gpt3-175b-a100x64.yaml", "examples/gpt2-large-rtx3090x8.yaml"


def expect(condition, text):
    if not condition:
        sys.exit(f"try_package: {text}")


package = pathlib.Path(panpipe.__file__).resolve().parent
expect(package.is_relative_to(sys.prefix), f"{package} is not what was installed into {sys.prefix}")

# What the command says, the package says.
step = panpipe.estimate(GPT3)
shown = subprocess.run([sys.executable, "-m", "panpipe", "estimate", GPT3, "--json"], capture_output=True, text=True)
expect(shown.returncode == 0, f"the command: {shown.stderr}")
expect(json.loads(shown.stdout)["metrics"] == step.metrics, "estimate and the command have different figures")
expect(
    len(step.timeline) > 0 and step.to_svg().startswith("<svg") and "<svg" in step._repr_html_(),
    "a prediction without timeline or pictures",
)
print(step)

simgrid, flow = (panpipe.simulate(GPT2, backend=name) for name in ("simgrid", "flow"))
expect(abs(simgrid.step_time_s / flow.step_time_s - 1) < 1e-3, f"the engines differ: simgrid {simgrid}, flow {flow}")
print(simgrid)

study = panpipe.sweep(GPT2, {"schedule": ["1f1b", "zb-h1"]})
cells = study.table.to_pydict()
expect(cells["schedule"] == ["1f1b", "zb-h1"] and set(cells["status"]) == {"fits"}, f"the sweep says {cells}")
print(study.text)

# 8 microbatches and 3 passes of filling, each a forward (1) and a backward (2): (8 + 3) x 3.
order = panpipe.schedule("1f1b", ranks=4, microbatches=8)
expect(order.makespan == 33.0 and order.legal, f"1f1b of 4 ranks and 8 microbatches: {order}")
expect(panpipe.plan(GPT2, method="pfeife").candidates, "plan finds no plan")
try:
    panpipe.estimate(GPT3, set={"parallel.tensr": 4})
    expect(False, "a wrong key is no error")
except panpipe.InputError as error:
    expect(error.diagnostics[0].key == "parallel.tensr", f"the error names {error.diagnostics[0]}")

# What editors and help() show.
for name in ("estimate", "simulate", "plan", "sweep", "schedule"):
    shown = pydoc.render_doc(getattr(panpipe, name), renderer=pydoc.plaintext)
    expect("Parameters" in shown and "Returns" in shown, f"help(panpipe.{name}) does not say what it takes and returns")
files = importlib.resources.files("panpipe")
expect((files / "py.typed").is_file() and "def estimate" in (files / "_core.pyi").read_text(), "the package has no types")
print("the package is in order")
