"""How the models of the study are trained: precision, recompute, optimizers, steps. Parallelism is in parallel.py."""

import contextlib

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

# PyTorch's operators whose results `recompute: operators` keeps: the products and attention, as torchtitan's `selective: op`.
KEPT = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
}


def policy(_, operator, *__, **___):
    return CheckpointPolicy.MUST_SAVE if operator in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def recompute(how, every=1):
    """How a block is called: `none`, `full`, `reentrant`, `operators`; every n-th block."""
    count = 0

    def run(block, *given):
        nonlocal count
        count += 1
        if how == "none" or count % every != 0 or not torch.is_grad_enabled():
            return block(*given)
        if how == "reentrant":
            return checkpoint(block, *given, use_reentrant=True)
        if how == "operators":
            return checkpoint(block, *given, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy))
        return checkpoint(block, *given, use_reentrant=False)

    return run


class Bf16States(torch.optim.Optimizer):
    """AdamW whose moments are bf16, a parameter at a time."""

    def __init__(self, parameters, rate=1e-3):
        super().__init__(parameters, {"lr": rate})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["first"] = torch.zeros_like(parameter, dtype=torch.bfloat16)
                    state["second"] = torch.zeros_like(parameter, dtype=torch.bfloat16)
                gradient = parameter.grad.float()
                first, second = state["first"].float(), state["second"].float()
                first.lerp_(gradient, 0.1)
                second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                state["first"].copy_(first)
                state["second"].copy_(second)
                parameter.addcdiv_(first, second.sqrt_().add_(1e-8), value=-group["lr"])


class ByteStates(torch.optim.Optimizer):
    """Moments of a byte per element and a scale of four bytes per 256, as bitsandbytes keeps them; its one kernel per parameter has no
    temporary, nor has this."""

    BLOCK = 256

    def __init__(self, parameters, rate=1e-3):
        super().__init__(parameters, {"lr": rate})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None or self.state[parameter]:
                    continue
                blocks = -(-parameter.numel() // self.BLOCK)
                for moment in ("first", "second"):
                    self.state[parameter][moment] = torch.zeros_like(parameter, dtype=torch.uint8)
                    self.state[parameter][moment + "_scales"] = torch.zeros(blocks, device=parameter.device)


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),  # foreach, PyTorch's own choice
    "adamw-loop": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, foreach=False),
    "adamw-fused": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
    "adamw-bf16": Bf16States,
    "adamw-8bit": ByteStates,
}


def precision(name):
    """(format of the weights, context of a forward, scaler of the loss)."""
    if name == "amp-bf16":
        return torch.float32, lambda: torch.autocast("cuda", torch.bfloat16), None
    if name == "amp-fp16":
        return torch.float32, lambda: torch.autocast("cuda", torch.float16), torch.amp.GradScaler("cuda")
    return {"fp32": torch.float32, "bf16": torch.bfloat16}[name], contextlib.nullcontext, None


@contextlib.contextmanager
def made_there(weights):
    """Modules are made on the device, in this format: drawing them on the host would take most of a run's time."""
    torch.set_default_dtype(weights)
    with torch.device("cuda"):
        yield
    torch.set_default_dtype(torch.float32)


class Steps:
    """Training steps whose phases are measured: `measure(phase)` is a context."""

    def __init__(self, forward_backward, optimizer, scaler, clip, parameters, measure):
        self.forward_backward, self.optimizer, self.scaler = forward_backward, optimizer, scaler
        self.clip, self.parameters, self.measure = clip, parameters, measure

    def step(self):
        self.forward_backward(self.measure)
        with self.measure("optimizer"):
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            if self.clip:
                torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            if self.scaler:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
            self.optimizer.zero_grad()


def microbatches(model, given, context, scaler, count, without_sum=contextlib.nullcontext, divided_loss=contextlib.nullcontext):
    """Forward and backward of `count` microbatches. `without_sum`: the context of all but the last, where ranks do not sum;
    `divided_loss`: that of a loss over a divided vocabulary."""

    def run(measure):
        for number in range(count):
            with without_sum() if number + 1 < count else contextlib.nullcontext():
                with measure("forward"), context(), divided_loss():
                    loss = model(*given()) / count
                with measure("backward"), divided_loss():
                    (scaler.scale(loss) if scaler else loss).backward()
                del loss

    return run
