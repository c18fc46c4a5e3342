#!/usr/bin/env python3
"""Turns a PyTorch model into an archive that panpipe predicts, plans and runs: workload: {pt2: model.pt2}.

The archive is a training step for one microbatch: its first output is the scalar loss.

    tools/export_model.py hf:gpt2 --micro 2 --length 128 -o gpt2.pt2
    tools/export_model.py hf:config.json --task causal-lm --micro 2 -o small.pt2
    tools/export_model.py torchvision.models:resnet18 --argument num_classes=10 --input 3,224,224 --loss cross-entropy --micro 8 -o resnet18.pt2
    tools/export_model.py my_package.my_module:make_model --input 3,32,32 --loss mse --micro 4 -o mine.pt2

hf:NAME is a model's name on Hugging Face or a local folder or config.json; weights are random unless --pretrained is given. It needs
transformers 5 (tried with 5.23.0); the attention masks of transformers 4 cannot be saved.
MODULE:CALLABLE is any callable that returns an nn.Module (or an nn.Module); it needs nothing but PyTorch.
With --loss own the module returns the scalar loss first. A function `example_inputs(micro)` next to the model, or its method, returns
a dictionary of its inputs by the names of the arguments of `forward`: {"input_ids": ids, "labels": labels}.
"""

import argparse
import ast
import importlib
import inspect
import io
import os
import pathlib
import sys
import warnings

TASKS = {
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "text-classification": "AutoModelForSequenceClassification",
    "image-classification": "AutoModelForImageClassification",
}
LOSSES = ("cross-entropy", "mse", "own")
# Masks of 4.57.1 are made with torch.vmap, whose traces torch.export.save of PyTorch 2.11 refuses.
OLDEST_TRANSFORMERS = 5


class Refused(Exception):
    """What the user should read; main() prints it and ends with 2."""


class CannotWrite(Exception):
    """As Refused, and ends with 3."""


def first_tensor(value):
    """The first tensor of whatever a model returns: a tensor, a tuple, a dictionary, a data class."""
    import torch

    if isinstance(value, torch.Tensor):
        return value
    items = value.values() if hasattr(value, "values") else value if isinstance(value, (tuple, list)) else ()
    for item in items:
        found = first_tensor(item) if item is not None else None
        if found is not None:
            return found
    return None


def with_loss(model, loss):
    """A module that returns the scalar loss first. `loss`: cross-entropy and mse compare the first output with `labels`; own leaves
    the model's own."""
    import torch
    from torch import nn

    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *arguments, labels=None, **named):
            if loss == "own":
                result = self.model(*arguments, **named) if labels is None else self.model(*arguments, labels=labels, **named)
                own = getattr(result, "loss", None)
                return first_tensor(result) if own is None else own
            output = first_tensor(self.model(*arguments, **named))
            if loss == "mse":
                return nn.functional.mse_loss(output.float(), labels)
            return nn.functional.cross_entropy(
                output.float().flatten(0, -2) if output.dim() == 3 else output.float(),
                labels.flatten() if output.dim() == 3 else labels,
            )

    return WithLoss() if not (loss == "own" and isinstance(model, torch.export.ExportedProgram)) else model


def first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def check_output(name):
    """The rule of panpipe's outputs (docs/command-line.md), checked before the work starts."""
    path = pathlib.Path(name)
    if path.is_dir() or path.is_socket():
        raise Refused(
            f"cannot write {name}: it is a {'folder' if path.is_dir() else 'socket'}, not a file; choose another file with -o"
        )


def save(program, name):
    """The same rule: whole or not at all; a link stays and its target is written; a device or a FIFO is written into."""
    import torch

    path = pathlib.Path(name)
    if path.exists() and not path.is_file():
        archive = io.BytesIO()
        torch.export.save(program, archive)
        with open(name, "ab", buffering=0) as out:
            out.write(archive.getbuffer())
        return
    target = pathlib.Path(os.path.realpath(name))
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(part, "wb") as out:
            torch.export.save(program, out)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def export(model, arguments, named, path):
    """Exports and saves; the forward must give a scalar loss first."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.export.export(model, tuple(arguments), named, strict=False)
        except Exception as error:  # torch.export raises nearly everything
            raise Refused(f"torch.export cannot capture this model: {first_line(error)}") from error
        first = program.graph_signature.user_outputs[0]
        value = next((node.meta.get("val") for node in program.graph.nodes if node.name == first), None)
        if value is None or value.numel() != 1:
            shape = None if value is None else list(value.shape)
            raise Refused(
                f"the first output has shape {shape}, not the scalar loss; give --loss cross-entropy or mse, or return the loss first"
            )
        try:
            save(program, path)
        except OSError as error:
            raise CannotWrite(f"write {path}: {error.strerror or error}; choose another file with -o") from error
        except Exception as error:  # as above
            raise Refused(f"torch.export cannot save this model: {first_line(error)}") from error
    return program


def import_callable(name):
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise Refused(f"cannot import '{module_name}': {error}") from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise Refused(f"'{module_name}' has no '{attribute}'") from error


def parse_arguments(pairs):
    named = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise Refused(f"--argument wants NAME=VALUE, not '{pair}'")
        try:
            named[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            named[key] = value
    return named


def import_transformers():
    """The package, when it is one of the releases that work."""
    wanted = f"'transformers>={OLDEST_TRANSFORMERS}'"
    try:
        import transformers
    except ModuleNotFoundError as error:
        if error.name == "transformers":
            raise Refused(f"hf: needs the package transformers: pip install {wanted}") from error
        raise Refused(f"the package transformers is here, but cannot be imported: {first_line(error)}") from error
    except Exception as error:
        raise Refused(f"the package transformers is here, but cannot be imported: {first_line(error)}") from error
    release = str(transformers.__version__)
    major = release.partition(".")[0]
    if not major.isdigit() or int(major) < OLDEST_TRANSFORMERS:
        raise Refused(f"hf: needs transformers {OLDEST_TRANSFORMERS} or later, here is {release}: pip install {wanted}")
    return transformers


def hugging_face(options):
    """Model and example inputs of a Hugging Face name or configuration."""
    import torch

    transformers = import_transformers()
    source = options.model[3:]
    path = pathlib.Path(source)
    folder = path.parent if path.suffix == ".json" else source
    try:
        config = transformers.AutoConfig.from_pretrained(folder if path.suffix != ".json" else str(path))
    except Exception as error:
        raise Refused(f"no configuration '{source}': {str(error).splitlines()[0]}") from error
    for key, value in parse_arguments(options.argument).items():
        setattr(config, key, value)
    config.use_cache = False
    task = options.task
    if task is None:
        named = " ".join(getattr(config, "architectures", None) or [])
        task = next(
            (
                t
                for t, mark in (
                    ("causal-lm", "LMHead"),
                    ("causal-lm", "CausalLM"),
                    ("masked-lm", "MaskedLM"),
                    ("seq2seq-lm", "ConditionalGeneration"),
                    ("image-classification", "ImageClassification"),
                )
                if mark in named
            ),
            None,
        )
        if task is None:
            raise Refused(f"which task? give --task, one of {', '.join(TASKS)}")
    loader = getattr(transformers, TASKS[task])
    model = loader.from_pretrained(folder, config=config) if options.pretrained else loader.from_config(config)
    micro, length = options.micro, options.length
    if task == "image-classification":
        size = getattr(config, "image_size", 224)
        size = size if isinstance(size, int) else size[0]
        inputs = {
            "pixel_values": torch.randn(micro, getattr(config, "num_channels", 3), size, size),
            "labels": torch.randint(0, config.num_labels, (micro,)),
        }
    else:
        tokens = torch.randint(0, config.vocab_size, (micro, length))
        labels = (
            torch.randint(0, config.num_labels, (micro,))
            if task == "text-classification"
            else torch.randint(0, config.vocab_size, (micro, length))
        )
        inputs = {"input_ids": tokens, "labels": labels}
    return with_loss(model, "own"), (), inputs


def first_parameter(model):
    """Name of the input in the model's forward: the archive's, which data files use. None where it has none of its own."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    named = parameters and parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and parameters[0].name != "labels"
    return parameters[0].name if named else None


def any_module(options):
    import torch

    made = import_callable(options.model)
    model = made if isinstance(made, torch.nn.Module) else made(**parse_arguments(options.argument))
    if not isinstance(model, torch.nn.Module):
        raise Refused(f"'{options.model}' gives a {type(model).__name__}, not an nn.Module")
    if options.loss == "own":
        example = getattr(model, "example_inputs", None) or getattr(
            importlib.import_module(options.model.partition(":")[0]), "example_inputs", None
        )
        if example is None:
            raise Refused(
                "--loss own needs a function example_inputs(micro) beside the model, or as its method, that returns a dictionary of inputs"
            )
        inputs = example(options.micro)
        if not isinstance(inputs, dict) or not all(isinstance(name, str) for name in inputs):
            raise Refused(
                f"example_inputs({options.micro}) returns a {type(inputs).__name__}, not a dictionary of inputs by the names of forward's arguments: "
                f"return {{{', '.join(repr(name) + ': ...' for name in inspect.signature(model.forward).parameters)}}}"
            )
        return model, (), inputs
    if not options.input:
        raise Refused("give the shape of one sample with --input, for example --input 3,224,224")
    shape = [int(extent) for extent in options.input.split(",")]
    sample = torch.randint(0, options.tokens, (options.micro, *shape)) if options.tokens else torch.randn(options.micro, *shape)
    with torch.no_grad():
        output = first_tensor(model.eval()(sample))
    model.train()
    if output is None:
        raise Refused("the model returns no tensor that a loss could be computed from")
    if options.loss == "mse":
        labels = torch.randn_like(output)
    else:
        classes = output.shape[-1] if output.dim() in (2, 3) else output.shape[1]
        where = output.shape[:-1] if output.dim() in (2, 3) else (output.shape[0], *output.shape[2:])
        labels = torch.randint(0, classes, where)
    name = first_parameter(model)
    return with_loss(model, options.loss), () if name else (sample,), {**({name: sample} if name else {}), "labels": labels}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="hf:NAME, hf:FOLDER, hf:config.json, or MODULE:CALLABLE")
    parser.add_argument("-o", "--output", required=True, help="the archive to write, ending in .pt2")
    parser.add_argument("--micro", type=int, default=1, help="samples in a microbatch: batch.micro of the scenario (default 1)")
    parser.add_argument("--length", type=int, default=128, help="tokens in a sample, for language models (default 128)")
    parser.add_argument(
        "--task",
        choices=sorted(TASKS),
        help="what the Hugging Face model is trained for; found from its configuration where it says",
    )
    parser.add_argument("--pretrained", action="store_true", help="with the published weights instead of random ones")
    parser.add_argument("--input", help="shape of one sample without the microbatch: 3,224,224")
    parser.add_argument("--tokens", type=int, help="the sample holds integers below this number (a vocabulary) instead of reals")
    parser.add_argument(
        "--loss",
        choices=LOSSES,
        default="cross-entropy",
        help="added behind the model's first output (default cross-entropy); own: the model returns it, and example_inputs(micro) a dictionary of inputs",
    )
    parser.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="passed to the callable, or set in the configuration; repeat for more",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random weights (default 0)")
    options = parser.parse_args()
    try:
        if not options.output.endswith(".pt2"):
            raise Refused("the archive's name must end in .pt2")
        check_output(options.output)
        if options.micro < 1:
            raise Refused("--micro must be at least 1")
        try:
            import torch
        except ImportError as error:
            raise Refused(
                "PyTorch is not installed here; make setup puts it into .venv: .venv/bin/python tools/export_model.py"
            ) from error
        torch.manual_seed(options.seed)
        if options.model.startswith("hf:"):
            model, arguments, named = hugging_face(options)
        elif ":" in options.model:
            model, arguments, named = any_module(options)
        else:
            raise Refused(f"'{options.model}' is neither hf:NAME nor MODULE:CALLABLE")
        program = export(model.train(), arguments, named, options.output)
    except Refused as error:
        print(f"export_model.py: error: {error}", file=sys.stderr)
        return 2
    except CannotWrite as error:
        print(f"export_model.py: this machine cannot: {error}", file=sys.stderr)
        return 3
    parameters = sum(value.numel() for value in {id(p): p for p in model.parameters()}.values())
    nodes = sum(node.op == "call_function" for node in program.graph.nodes)
    print(f"{options.output}: {parameters:,} parameters, {nodes} operators, microbatch of {options.micro}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
