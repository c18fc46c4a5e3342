#!/usr/bin/env python3
"""Which architectures run? Exports models of torchvision, timm and transformers (small, random weights, with a loss), cuts each in
two and in four, runs one step over threads and compares losses and gradients with PyTorch's own; writes docs/coverage.md.

    tools/coverage.py --check build/release/bin/check_exported --work /tmp/coverage -o docs/coverage.md [NAME...]

Needs torchvision, timm and transformers in addition to PyTorch. Results are kept in the work folder: a run that is broken off goes on where
it stopped (--repeat NAME... repeats some).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
import warnings

import yaml
from reflow import reflowed

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "tests" / "exec"))

MICRO, MICROBATCHES = 2, 4
TOLERANCE = 1e-5  # fp32, relative to the largest gradient of the parameter

ARCHITECTURES = yaml.safe_load((HERE / "coverage_architectures.yaml").read_text(encoding="utf-8"))


def all_names():
    return [f"{library}/{name}" for library in ("torchvision", "timm", "transformers") for name in ARCHITECTURES[library]]


def without_dropout(model):
    """PyTorch draws its random numbers in another order than a pipeline can: dropout is compared elsewhere."""
    import torch

    for module in model.modules():
        for name in list(vars(module)):
            value = getattr(module, name)
            if isinstance(value, float) and (
                "drop" in name.lower()
                or (name == "p" and any(mark in type(module).__name__ for mark in ("Drop", "StochasticDepth")))
            ):
                setattr(module, name, 0.0)
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def build(name):
    """Module that returns its loss first, and a function that draws the inputs of a microbatch."""
    import torch
    from export_model import with_loss

    library, _, short = name.partition("/")
    own = ARCHITECTURES[library][short]
    if library == "transformers":
        import transformers

        cls, kind = getattr(transformers, own["class"]), own["task"]
        sizes = {"num_labels": 5} if own.get("own_sizes") else ARCHITECTURES["sizes"]
        config = cls.config_class(**{**sizes, **own.get("settings", {})})
        for key, value in vars(config).items():
            if isinstance(value, float) and "drop" in key:
                setattr(config, key, 0.0)
        model = with_loss(cls(config), "own")

        def tokens():
            return torch.randint(3, 99, (MICRO, 16))

        if kind == "image":
            size = getattr(config, "image_size", 64)
            size = size if isinstance(size, int) else 64
            return model, lambda: {
                "pixel_values": torch.randn(MICRO, 3, size, size),
                "labels": torch.randint(0, 5, (MICRO,)),
            }
        if kind == "classes":
            return model, lambda: {"input_ids": tokens(), "labels": torch.randint(0, 5, (MICRO,))}
        if kind == "seq2seq":
            return model, lambda: {"input_ids": tokens(), "labels": torch.randint(3, 99, (MICRO, 8))}
        return model, lambda: {"input_ids": tokens(), "labels": tokens()}
    if library == "timm":
        import timm

        made = timm.create_model(short, num_classes=10)
    else:
        import torchvision

        made = getattr(torchvision.models, short)(num_classes=10, **own.get("arguments", {}))
    return with_loss(made, "cross-entropy"), lambda: {
        "pixels": torch.randn(MICRO, 3, own["size"], own["size"]),
        "labels": torch.randint(0, 10, (MICRO,)),
    }


def reference(name, folder):
    """Exports one model and writes what PyTorch gives for a step."""
    import torch
    from export_small_models import write_safetensors

    torch.set_num_threads(1)
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    model, draw = build(name)
    without_dropout(model).train()
    image = not name.startswith("transformers/")
    batches = [draw() for _ in range(MICROBATCHES)]

    def call(batch):
        return ((batch["pixels"],), {"labels": batch["labels"]}) if image else ((), batch)

    arguments, named = call(batches[0])
    program = torch.export.export(model, arguments, named)
    torch.export.save(program, f"{folder}/model.pt2")
    first = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    result, total = {}, 0.0
    for i, batch in enumerate(batches):
        for given, value in zip(first, list(batch.values())):
            result[f"input/{given}/{i}"] = value
    for batch in batches:
        arguments, named = call(batch)
        loss = model(*arguments, **named)
        total += loss.detach().double().sum()
        (loss / MICROBATCHES).sum().backward()
    result["loss"] = (total / MICROBATCHES).reshape(1)
    for key, value in model.named_parameters(remove_duplicate=False):
        if value.grad is not None:
            result[f"gradient/{key}"] = value.grad.float()
    write_safetensors(f"{folder}/reference.safetensors", result)
    parameters = sum(value.numel() for value in model.parameters())
    print(json.dumps({"parameters": parameters, "repeatable": repeatable(model, call(batches[0]))}))


def repeatable(model, given):
    """Does PyTorch give the same loss twice? A model that draws random numbers cannot be compared."""
    arguments, named = given
    return bool(model(*arguments, **named) == model(*arguments, **named))


def forked(name, folder, limit):
    """Runs reference() in a child that has the libraries loaded already; returns its exit code (None: too late) and what it wrote."""
    log = folder / "export.log"
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            reference(name, folder)
            code = 0
        except BaseException as error:  # a child must not go on as its parent
            print(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")
        finally:
            sys.stdout.flush()
            os._exit(code)
    until = time.time() + limit
    while time.time() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), log.read_text()
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None, ""


def run_one(name, options):
    folder = options.work / name.replace("/", "-")
    kept = folder / "result.json"
    if kept.exists() and name not in options.again:
        return json.loads(kept.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    result = {"name": name}
    began = time.time()
    code, words = forked(name, folder, options.limit)
    lines = words.strip().splitlines() or ["ended without a word"]
    if code is None:
        result["export"] = f"not done in {options.limit} s"
    elif code != 0:
        result["export"] = lines[-1][:300]
    else:
        result.update(json.loads(lines[-1]))
        try:
            ran = subprocess.run(
                [options.check, str(folder / "model.pt2"), str(folder / "reference.safetensors")],
                capture_output=True,
                text=True,
                timeout=options.limit,
                env=dict(os.environ, OMP_NUM_THREADS="1"),
            )
            result["lines"] = [json.loads(line) for line in ran.stdout.splitlines()]
            if ran.returncode not in (0, 1) or (ran.returncode == 0 and len(result["lines"]) < 5):
                result["crash"] = f"ended with {ran.returncode}: {ran.stderr.strip()[-200:]}"
        except subprocess.TimeoutExpired:
            result["crash"] = f"not done in {options.limit} s"
    result["seconds"] = round(time.time() - began, 1)
    for file in ("model.pt2", "reference.safetensors"):
        if not options.keep:
            (folder / file).unlink(missing_ok=True)
    kept.write_text(json.dumps(result))
    return result


def load_libraries(names):
    """Once, before the first child: loading them takes longer than most models."""
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    import torch

    torch.set_num_threads(1)
    import torch._dynamo
    import torch._export.utils

    import export_model  # noqa: F401
    import export_small_models  # noqa: F401

    for library in {name.partition("/")[0] for name in names}:
        __import__(library)


def verdict(result):
    """(runs, words, largest difference)"""
    if "export" in result:
        return None, "torch.export: " + result["export"], None
    if "crash" in result:
        return False, result["crash"], None
    worst = 0.0
    for line in result["lines"]:
        if "error" in line:
            return False, line["error"].splitlines()[0][:300], None
        if "cut" not in line:
            continue
        if line["missing"]:
            return False, f"{line['cut']}: the gradient of {line['missing']} is missing", None
        worst = max(worst, line["loss"], line["gradient"])
    if not worst <= TOLERANCE:
        where = max((line for line in result["lines"] if "cut" in line), key=lambda line: line["gradient"])
        return False, f"{where['cut']}: gradient of {where['worst']} differs by {where['gradient']:.1e}", worst
    return True, "equal", worst


def write_table(results, path):
    import torch

    equal, others, captured = {}, [], 0
    for result in results:
        runs, words, _ = verdict(result)
        captured += runs is not None
        if runs:
            library, _, name = result["name"].partition("/")
            equal.setdefault(library, []).append(name)
            continue
        found_out = ARCHITECTURES["differences"].get(result["name"])
        reason = f" ({found_out})" if found_out else ""
        others.append(f"* {result['name']}: {' '.join(words.split())}{reason}.")
    versions = ", ".join(f"{name} {__import__(name).__version__}" for name in ("torchvision", "timm", "transformers"))
    text = f"""# Which architectures run

`tools/coverage.py` takes architectures of torchvision, timm and transformers with small random weights and a loss and exports each with
`torch.export`. It cuts each model in two and in four stages and trains one step of {MICROBATCHES} microbatches over ranks that are threads
(1F1B and ZB-H1 on two ranks, 1F1B on four). It compares the loss and every gradient with PyTorch in one process (fp32).

PyTorch {torch.__version__}, {versions}: `torch.export` captured {captured} of {len(results)} architectures; **{sum(map(len, equal.values()))} of these give equal
losses and gradients** on every cut. Equal means that no gradient differs by more than 1e-5 of the largest gradient of its parameter. If all
gradients of a parameter are smaller than a hundredth of the largest gradient, they are compared with that hundredth (fp32 resolves no more).
Dropout is set to 0 here, because PyTorch draws its random numbers in an order that a pipeline cannot follow;
`tests/exec/exported_test.cpp` tests that dropout is the same on every cut.

""" + "\n".join(f"* {library}: {', '.join(sorted(names))}" for library, names in equal.items()) + "\n"
    if others:
        text += "\nThe others:\n\n" + "\n".join(others) + "\n"
    missing = [name for name in all_names() if name not in {result["name"] for result in results}]
    if missing:
        text += "\nIn the script's list and not run yet: " + ", ".join(missing) + ".\n"
    pathlib.Path(path).write_text(reflowed(text))
    print(f"{path}: {len(results)} architectures, {captured} captured, {sum(map(len, equal.values()))} equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="library/model; all of them when none is given")
    parser.add_argument("--check", help="the program check_exported of the build")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for archives and results")
    parser.add_argument("-o", "--output", help="the table to write")
    parser.add_argument("--limit", type=int, default=240, help="seconds for one model (default 240)")
    parser.add_argument("--repeat", action="store_true", help="repeat the models that are named")
    parser.add_argument("--keep", action="store_true", help="keep archives and references")
    options = parser.parse_args()
    if not options.check:
        parser.error("--check is needed: the program that runs a cut")
    options.again = options.names if options.repeat else []
    results, names = [], options.names or all_names()
    if any(name in options.again or not (options.work / name.replace("/", "-") / "result.json").exists() for name in names):
        load_libraries(names)
    for name in names:
        result = run_one(name, options)
        results.append(result)
        runs, words, worst = verdict(result)
        print(f"{name}: {words}{'' if worst is None else f' ({worst:.0e})'}, {result['seconds']} s", flush=True)
    if options.output:
        write_table(results, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
