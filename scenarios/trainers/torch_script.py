# The fixed parts of the script that `panpipe export torch` writes. Between them it puts the plan's settings and the model's units,
# whose names (UNITS, STAGES, SEED, ...) the parts use. A line "# part: NAME" begins each part.
# part: imports
import argparse
import math
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, _PipelineScheduleRuntime, get_schedule_class
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

DEVICE = torch.device("cpu")  # main() chooses

# part: own operators, for models with experts, windows, caps, linear biases or layers with a state

def attention(query, key, value, sinks, slopes, dropout_p, causal, scale, grouped, window, cap):
    """Attention with a window, capped scores, sinks or linear biases; the softmax is taken in fp32."""
    distance = torch.arange(query.size(2), device=query.device)[:, None] - torch.arange(key.size(2), device=query.device)
    seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    if window > 0:
        seen = seen & (distance < window)
    if sinks is None and slopes is None and cap <= 0:
        return F.scaled_dot_product_attention(query, key, value, seen, dropout_p, False, scale=scale, enable_gqa=grouped)
    group = query.size(1) // key.size(1)
    keys, values = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = (query @ keys.transpose(2, 3)).float() * (scale or 1 / math.sqrt(query.size(3)))
    if cap > 0:
        scores = torch.tanh(scores / cap) * cap
    if slopes is not None:
        scores = scores + slopes.float().view(1, -1, 1, 1) * torch.arange(key.size(2), device=query.device, dtype=scores.dtype)
    scores = scores.masked_fill(~seen, -math.inf)
    if sinks is None:
        shares = scores.softmax(3)
    else:
        column = sinks.float().view(1, -1, 1, 1).expand(scores.size(0), -1, scores.size(2), 1)
        shares = torch.cat([scores, column], 3).softmax(3).narrow(3, 0, scores.size(3))
    shares = shares.to(query.dtype)
    return (F.dropout(shares, dropout_p) if dropout_p > 0 else shares) @ values


def choose_keys(query, key, weights, heads, count):
    """The keys up to each query with the largest sums over heads of weighted, rectified scores (arXiv 2512.02556)."""
    with torch.no_grad():
        scores = F.relu(query.float().unflatten(2, (heads, -1)).transpose(1, 2) @ key.float().transpose(1, 2).unsqueeze(1))
        total = (weights.float().transpose(1, 2).unsqueeze(-1) * scores).sum(1)
        later = torch.ones_like(total, dtype=torch.bool).triu(1)
        return total.masked_fill(later, -math.inf).topk(count, 2).indices.int()


def sparse_attention(query, key, value, chosen, dropout_p, causal, scale, grouped, window):
    """Each query attends to those of its chosen keys that are not behind it."""
    none = torch.zeros(query.size(0), query.size(2), key.size(2), dtype=torch.bool, device=query.device)
    seen = none.scatter(2, chosen.long(), True).tril().unsqueeze(1)
    return F.scaled_dot_product_attention(query, key, value, seen, dropout_p, False, scale=scale, enable_gqa=grouped)


def route(logits, correction, per_token, sigmoid, normalized, scale):
    """The best experts of every row by score, plus the correction, and their weights, which do not contain it."""
    scores = logits.float().sigmoid() if sigmoid else logits.float().softmax(1)
    judged = scores.detach() if correction is None else scores.detach() + correction
    chosen = judged.topk(per_token, 1).indices
    weights = scores.gather(1, chosen)
    if normalized:
        weights = weights / weights.sum(1, True)
    return (weights * scale).to(logits.dtype), chosen


def by_expert(chosen):
    return chosen.flatten().argsort(stable=True)


def dispatch(rows, chosen):
    return rows.index_select(0, by_expert(chosen) // chosen.size(1))


def grouped_linear(rows, chosen, weight, bias, transposed, share):
    counts = chosen.flatten().bincount(minlength=weight.size(0)).tolist()
    made = []
    for expert, part in enumerate(rows.split(counts)):
        result = F.linear(part, weight[expert].t() if transposed else weight[expert])
        made.append(result if bias is None else result + bias[expert] * share)
    return torch.cat(made)


def combine(rows, weights, chosen):
    order = by_expert(chosen)
    weighted = rows * weights.flatten().index_select(0, order).unsqueeze(1)
    return torch.zeros(chosen.size(0), rows.size(1), dtype=rows.dtype, device=rows.device).index_add(
        0, order // chosen.size(1), weighted)


def clamped_silu(gate, limit, slope):
    gate = gate.clamp(max=limit)
    return gate * torch.sigmoid(gate * slope)


def clamped_product(active, up, limit):
    return active * (up.clamp(-limit, limit) + 1)


def mix_streams(streams, weights):
    """Each stream and what it takes of all (AltUp); streams are neighbours in the last dimension."""
    side = math.isqrt(weights.size(2))
    parts = streams.unflatten(2, (side, -1))
    return (weights.unflatten(2, (side, side)) @ parts + parts).flatten(2)


def correct_streams(streams, made, shares):
    parts = streams.unflatten(2, (shares.size(2), -1))
    return (parts + (made - parts[:, :, 0]).unsqueeze(2) * (shares + 1).unsqueeze(3)).flatten(2)


def add_to_later_streams(streams, x):
    first, later = streams.split([x.size(2), streams.size(2) - x.size(2)], 2)
    return torch.cat([first, (later.unflatten(2, (-1, x.size(2))) + x.unsqueeze(2)).flatten(2)], 2)


def like_magnitude(x, other):
    return x * other.square().mean(-1, True).sqrt() / x.square().mean(-1, True).clamp(min=1e-5).sqrt()


def sparse_gate(x, deviations):
    return F.relu(x - (x.mean(-1, True) + x.std(-1, unbiased=False, keepdim=True) * deviations))


def causal_convolution(x, weight, bias, silu):
    made = F.conv1d(F.pad(x.transpose(1, 2), (weight.size(2) - 1, 0)), weight, bias, groups=weight.size(0)).transpose(1, 2)
    return F.silu(made) if silu else made


def in_chunks(x, heads, chunk):
    """(batch, tokens, heads, features) to (batch, heads, chunks, tokens of a chunk, features), in fp32."""
    by_head = x.float().repeat_interleave(heads // x.size(2), 2).transpose(1, 2)
    return F.pad(by_head, (0, 0, 0, -x.size(1) % chunk)).unflatten(2, (-1, chunk))


def decayed_scores(left, right, sums):
    """Of each token with those of its chunk up to itself; `sums`: of the decays' logarithms, for all features or for each."""
    later = torch.ones(left.size(-2), left.size(-2), dtype=torch.bool, device=left.device).triu(1)
    if sums.size(-1) == 1:
        return (left @ right.transpose(-1, -2)) * (sums - sums.transpose(-1, -2)).masked_fill(later, -math.inf).exp()
    between = (sums.unsqueeze(-2) - sums.unsqueeze(-3)).masked_fill(later.unsqueeze(-1), -math.inf).exp()
    return (left.unsqueeze(-2) * right.unsqueeze(-3) * between).sum(-1)


def pass_state(query, key, value, sums, tokens, reading=None):
    """State = exp(decay) state + key value, result = query state, chunk by chunk; (batch, tokens, heads, features)."""
    inside, end = decayed_scores(query, key, sums), sums[..., -1:, :]
    out, into, kept = query * sums.exp(), (key * (end - sums).exp()).transpose(-1, -2), end.exp().transpose(-1, -2)
    state, made = torch.zeros(*key.shape[:2], key.size(4), value.size(4), device=key.device), []
    for i in range(value.size(2)):
        own = value[:, :, i] if reading is None else value[:, :, i] - reading[:, :, i] @ state
        made.append(out[:, :, i] @ state + inside[:, :, i] @ own)
        state = state * kept[:, :, i] + into[:, :, i] @ own
    return torch.cat(made, 2)[:, :, :tokens].transpose(1, 2)


def gated_delta_rule(query, key, value, chunk, decay, strength, dt_bias, A_log):
    """Gated DeltaNet (arXiv 2412.06464), with one decay a head or one for each feature of a key."""
    tokens, heads = value.shape[1:3]
    chunk = min(chunk, tokens)
    rate = F.softplus(decay.float() + dt_bias.float()).view(value.size(0), tokens, heads, -1)
    sums = in_chunks(-A_log.float().exp().view(heads, 1) * rate, heads, chunk).cumsum(-2)
    unit = [x.float() * (x.float().square().sum(-1, True) + 1e-6).rsqrt() for x in (query, key)]
    q, k = in_chunks(unit[0] / math.sqrt(query.size(3)), heads, chunk), in_chunks(unit[1], heads, chunk)
    weights = in_chunks(strength.float().sigmoid().unsqueeze(-1), heads, chunk)
    sides = torch.cat([in_chunks(value, heads, chunk) * weights, k * weights * sums.exp()], -1)
    solved = torch.linalg.solve_triangular(decayed_scores(k * weights, k, sums), sides, upper=False, unitriangular=True)
    own, reading = solved.split([value.size(3), key.size(3)], -1)
    return pass_state(q, k, own, sums, tokens, reading).to(value.dtype).contiguous()


def state_space(query, key, value, chunk, step, dt_bias, A_log, D, least_step):
    """Mamba 2 (arXiv 2405.21060)."""
    tokens, heads = value.shape[1:3]
    chunk = min(chunk, tokens)
    dt = F.softplus(step.float() + dt_bias.float()).clamp(min=least_step).unsqueeze(-1)
    sums = in_chunks(-A_log.float().exp().view(heads, 1) * dt, heads, chunk).cumsum(-2)
    q, k, v = (in_chunks(x, heads, chunk) for x in (query, key, value.float() * dt))
    return (pass_state(q, k, v, sums, tokens) + D.float().view(heads, 1) * value.float()).to(value.dtype).contiguous()


def selective_scan(query, key, value, step, A_log, D):
    """Mamba 1 (arXiv 2312.00752), token by token."""
    x, dt, decay = value.float(), F.softplus(step.float()), -A_log.float().exp()
    state, made = torch.zeros(x.size(0), x.size(2), key.size(2), device=x.device), []
    for t in range(x.size(1)):
        into = (dt[:, t] * x[:, t]).unsqueeze(-1) * key[:, t].float().unsqueeze(1)
        state = (dt[:, t].unsqueeze(-1) * decay).exp() * state + into
        made.append((state @ query[:, t].float().unsqueeze(-1)).squeeze(-1))
    return (torch.stack(made, 1) + D.float() * x).to(value.dtype)


def lightning_attention(query, key, value, chunk, slopes):
    """arXiv 2401.04658."""
    tokens, heads = value.shape[1:3]
    chunk = min(chunk, tokens)
    sums = in_chunks(-slopes.float().view(1, 1, heads, 1).expand(value.size(0), tokens, -1, -1), heads, chunk).cumsum(-2)
    q, k, v = (in_chunks(x, heads, chunk) for x in (query, key, value))
    return pass_state(q, k, v, sums, tokens).to(value.dtype).contiguous()

# part: model, data and training


MASK = (1 << 64) - 1


def generator(seed):
    return torch.Generator().manual_seed(seed & MASK)


def initial(name, shape, init, dtype=torch.float32):
    """The values that `panpipe run` draws: they depend on the name and the seed, not on the placement."""
    kind, _, rest = init.partition("(")
    if kind == "lightning_slopes":
        heads, layer, layers = (int(number) for number in rest.rstrip(")").split())
        rates = torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)], dtype=dtype)
        return rates * (1 - layer / (layers - 1 + 1e-5) + 1e-5)
    value = float(rest.rstrip(")") or 0)
    if kind == "zeros":
        return torch.zeros(shape, dtype=dtype)
    if kind == "ones":
        return torch.ones(shape, dtype=dtype)
    if kind == "arange":
        return (torch.arange(math.prod(shape), dtype=dtype) + value).to(dtype).reshape(shape)
    if kind in ("rotary_cos", "rotary_sin"):
        half = shape[1] // 2
        frequency = torch.pow(value, torch.arange(half, dtype=torch.float64) * (-2.0 / shape[1]))
        angles = torch.outer(torch.arange(shape[0], dtype=torch.float64), frequency).repeat(1, 2)
        return (angles.cos() if kind == "rotary_cos" else angles.sin()).to(dtype)
    if kind == "alibi_slopes":
        power = 1 << (int(value).bit_length() - 1)
        slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
        slopes += [2 ** (-8 * (2 * i - 1) / (2 * power)) for i in range(1, int(value) - power + 1)]
        return torch.tensor(slopes, dtype=dtype)
    if kind == "sinusoid_frequencies":
        count = math.prod(shape)
        return torch.exp(torch.arange(count, dtype=torch.float64) * (-math.log(value) / count)).to(dtype).reshape(shape)
    code = 14695981039346656037  # FNV-1a of the name
    for letter in name.encode():
        code = ((code ^ letter) * 1099511628211) & MASK
    random = generator(code ^ (SEED * 0x9E3779B97F4A7C15 & MASK))
    if kind == "normal":
        return torch.normal(0.0, value, shape, generator=random).to(dtype)
    if kind == "uniform":
        return torch.empty(shape).uniform_(-value, value, generator=random).to(dtype)
    raise SystemExit(f"{name}: initial values '{init}' are not known")


made_constants = {}


def constant(name):
    if name not in made_constants:
        shape, dtype, init = CONSTANTS[name]
        made_constants[name] = initial(name, shape, init, dtype).to(DEVICE)
    return made_constants[name]


def meta(names):
    return tuple(torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in (VALUES[name] for name in names))


class Stage(nn.Module):
    """Neighbouring units of the model. Parameters have the model's own names in state_dict()."""

    def __init__(self, first, end, recompute, own):
        super().__init__()
        self.recompute = recompute
        self.units = UNITS[first:end]
        later = {name for unit in UNITS[end:] for name in unit[4]} | set(UNITS[-1][5])
        before = [name for unit in UNITS[:first] for name in unit[5]]
        inputs = [row[0] for row in INPUTS]
        needed = {name for unit in UNITS[first:] for name in unit[4]}
        self.takes = inputs if first == 0 else [name for name in inputs + before if name in needed]
        self.gives = [name for name in self.takes if name in later] + [name for unit in self.units for name in unit[5] if name in later]
        for _, function, path, _, _, _ in self.units:
            for relative, (shape, init) in function.parameters.items():
                self.add(f"{path}.{relative}" if path else relative, shape, init, own)

    def add(self, name, shape, init, own):
        root = TIED.get(name, name)
        if root not in own:
            own[root] = nn.Parameter(initial(root, shape, init).to(DEVICE))
        module, parts = self, name.split(".")
        for part in parts[:-1]:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        module.register_parameter(parts[-1], own[root])

    def compute(self, units, values):
        for _, function, path, _, reads, makes in units:
            made = function(self.get_submodule(path) if path else self, *(values[name] for name in reads))
            values.update(zip(makes, made if isinstance(made, tuple) else (made,)))
        return values

    def forward(self, *received):
        values, units = dict(zip(self.takes, received)), self.units
        while units:
            block = units[0][3]
            count = next((i for i, unit in enumerate(units) if unit[3] != block), len(units))
            if self.recompute and block:
                values = checkpoint(self.compute, units[:count], dict(values), use_reentrant=False)
            else:
                values = self.compute(units[:count], values)
            units = units[count:]
        given = tuple(values[name] for name in self.gives)
        return given[0] if len(given) == 1 else given



def synthetic(row, index):
    """Microbatch `index` of the run for an input of the model, as `panpipe run` draws it."""
    name, number, shape, dtype, limit = row
    random = generator((SEED * 0x9E3779B97F4A7C15 & MASK) ^ (index * 0xBF58476D1CE4E5B9 & MASK) ^ number)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=random).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else limit or 2, shape, generator=random).to(dtype)


class Tokens:
    """A file of token ids: sample i is the tokens i x sequence on; its labels lie one token further."""

    def __init__(self, path, width):
        index = pathlib.Path(path).with_suffix(".idx")
        code = index.read_bytes()[17] if path.endswith(".bin") and index.exists() else None  # Megatron-LM's index
        self.wide = code == 4 or (code is None and width == 32)
        count = os.path.getsize(path) // (4 if self.wide else 2)
        self.ids = torch.from_file(path, shared=False, size=count, dtype=torch.int32 if self.wide else torch.int16)

    def rows(self, row, index):
        name, _, (micro, sequence), dtype, _ = row
        samples, shift = (len(self.ids) - 1) // sequence, 1 if name == "labels" else 0
        rows = []
        for i in range(micro):
            first = (index * micro + i) % samples * sequence + shift
            ids = self.ids[first:first + sequence].to(dtype)
            rows.append(ids if self.wide else ids & 0xFFFF)
        return torch.stack(rows)


class Tensors:
    """A safetensors file with a tensor for each input; its first dimension is the sample."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        import json
        size = int.from_bytes(data[:8], "little")
        types = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64, "I64": torch.int64,
                 "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
        self.values = {}
        for name, entry in json.loads(data[8:8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            content = bytearray(data[8 + size + begin:8 + size + end])
            self.values[name] = torch.frombuffer(content, dtype=types[entry["dtype"]]).reshape(entry["shape"])

    def rows(self, row, index):
        name, _, shape, dtype, _ = row
        values = self.values[name]
        return torch.stack([values[(index * shape[0] + i) % len(values)] for i in range(shape[0])]).to(dtype)


def data_source():
    if DATA["kind"] == "synthetic":
        return synthetic
    return (Tokens(DATA["file"], DATA["width"]) if DATA["kind"] == "tokens" else Tensors(DATA["file"])).rows



def learning_rate(update):
    """Of an update, counted from 0."""
    peak, least = OPTIMIZER["lr"], min(RATE["minimum"], OPTIMIZER["lr"])
    if update < RATE["warmup"]:
        return peak * (update + 1) / RATE["warmup"]
    if RATE["decay"] == "constant":
        return peak
    if RATE["decay"] == "inverse_sqrt":
        return max(least, peak * math.sqrt(max(1, RATE["warmup"]) / (update + 1)))
    start = max(RATE["warmup"], RATE["start"])
    done = min(1.0, max(0.0, (update - start) / (RATE["steps"] - start)))
    if RATE["decay"] == "linear":
        return peak + (least - peak) * done
    return least + (peak - least) * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizer(parameters, data_group):
    settings = {key: value for key, value in OPTIMIZER.items() if key != "name"}
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[OPTIMIZER["name"]]
    if ZERO == 0 or DATA_RANKS == 1:
        return kind(parameters, **settings)
    from torch.distributed.optim import ZeroRedundancyOptimizer
    return ZeroRedundancyOptimizer(parameters, optimizer_class=kind, process_group=data_group, **settings)


def make_schedule(stages):
    if SCHEDULE:
        kind = get_schedule_class(SCHEDULE)
        single = issubclass(kind, PipelineScheduleSingle)
        return kind(stages[0] if single else stages, MICROBATCHES, loss_fn=loss_of, scale_grads=False)
    schedule = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=loss_of, scale_grads=False)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schedule.csv")
        pathlib.Path(path).write_text(ORDER.strip() + "\n")
        schedule._load_csv(path, format="compute_comms" if "_F" in ORDER else "compute_only")
    return schedule


class Rank:
    """A process: its position in the pipeline, its replica, and the groups it is in."""

    def __init__(self):
        ranks = len(set(PLACEMENT))
        if dist.get_world_size() != ranks * DATA_RANKS:
            raise SystemExit(f"start {ranks * DATA_RANKS} processes: {ranks} pipeline ranks x {DATA_RANKS} replicas")
        self.position, self.replica = divmod(dist.get_rank(), DATA_RANKS)
        of = lambda position, replica: position * DATA_RANKS + replica
        for replica in range(DATA_RANKS):  # every process makes every group
            group = dist.new_group([of(position, replica) for position in range(ranks)])
            if replica == self.replica:
                self.pipeline_group = group
        for position in range(ranks):
            group = dist.new_group([of(position, replica) for replica in range(DATA_RANKS)])
            if position == self.position:
                self.data_group = group
        self.holders = {}
        for name, root in sorted(TIED.items()):
            held = sorted({PLACEMENT[stage] for stage, row in enumerate(STAGES) for parameter in parameters_of(row)
                           if TIED.get(parameter, parameter) == root})
            for replica in range(DATA_RANKS):
                group = dist.new_group([of(position, replica) for position in held])
                if replica == self.replica and self.position in held and len(held) > 1:
                    self.holders[root] = (group, held[0] == self.position)


def parameters_of(row):
    for _, function, path, _, _, _ in UNITS[row[0]:row[1]]:
        for relative in function.parameters:
            yield f"{path}.{relative}" if path else relative


def reduce_gradients(rank, own):
    """Means over microbatches and replicas. A schedule would divide a parameter that two of its stages share twice."""
    for root, parameter in sorted(own.items()):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if root in rank.holders:
            dist.all_reduce(parameter.grad, group=rank.holders[root][0])
        if DATA_RANKS > 1:
            dist.all_reduce(parameter.grad, group=rank.data_group)
        parameter.grad /= MICROBATCHES * DATA_RANKS


def clip_gradients(rank, own):
    if CLIP <= 0:
        return
    mine = [p.grad for root, p in own.items() if root not in rank.holders or rank.holders[root][1]]
    square = torch.stack([g.float().norm().double() ** 2 for g in mine] or [torch.zeros((), dtype=torch.float64)]).sum().to(DEVICE)
    dist.all_reduce(square, group=rank.pipeline_group)
    factor = min(1.0, CLIP / (math.sqrt(square.item()) + 1e-6))
    for parameter in own.values():
        parameter.grad *= factor


def main():
    global DEVICE
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.device == "cuda":
        DEVICE = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(DEVICE)
    torch.backends.cuda.matmul.allow_tf32 = TF32
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    rank, own, stages = Rank(), {}, []
    for index, (first, end, recompute) in enumerate(STAGES):
        if PLACEMENT[index] == rank.position:
            module = Stage(first, end, recompute, own)
            stages.append(PipelineStage(module, index, len(STAGES), DEVICE, input_args=meta(module.takes),
                                        output_args=meta(module.gives), group=rank.pipeline_group))
            if options.device == "cpu":  # messages that set NCCL up; a V sends them to itself, which Gloo does not do
                stages[-1]._get_init_p2p_neighbors_ops = lambda: []
    schedule, source = make_schedule(stages), data_source()
    has_first, has_last = PLACEMENT[0] == rank.position, PLACEMENT[-1] == rank.position
    optimizer = make_optimizer(list(own.values()), rank.data_group) if OPTIMIZER["name"] != "none" else None
    for step in range(options.steps):
        batch = lambda row: torch.cat([source(row, (step * MICROBATCHES + i) * DATA_RANKS + rank.replica)
                                       for i in range(MICROBATCHES)]).to(DEVICE)
        for parameter in own.values():
            parameter.grad = None
        losses = []
        arguments = [batch(row) for row in INPUTS] if has_first else []
        keywords = {"target": batch(TARGET), "losses": losses} if has_last else {}
        schedule.step(*arguments, **keywords, return_outputs=False)
        reduce_gradients(rank, own)
        clip_gradients(rank, own)
        if optimizer:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step)
            optimizer.step()
        mean = torch.zeros(1, dtype=torch.float64, device=DEVICE)
        if has_last:
            mean += sum(loss.detach().double() for loss in losses) / (MICROBATCHES * DATA_RANKS)
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"step {step + 1} loss {mean.item():.9g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
