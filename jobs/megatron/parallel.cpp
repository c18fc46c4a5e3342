// The degrees of a Megatron-LM job, its machine, and how it divides states and experts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "costmodel/degrees/check_degrees.hpp"
#include "jobs/bounds.hpp"
#include "jobs/job_machine.hpp"
#include "jobs/megatron/job.hpp"
#include "jobs/shared_keys.hpp"

namespace panpipe::jobs {
namespace {

int degree(MegatronJob& m, const char* option) { return m.arguments.integer(option, 1, kMostRanks).value_or(1); }

void read_degrees(MegatronJob& m) {
  m.degrees.tensor = degree(m, "--tensor-model-parallel-size");
  m.degrees.pipeline = degree(m, "--pipeline-model-parallel-size");
  m.degrees.context =
      degree(m, m.arguments.has("--ds-sequence-parallel-size") ? "--ds-sequence-parallel-size" : "--context-parallel-size");
  m.degrees.expert =
      degree(m, m.arguments.has("--moe-expert-parallel-size") ? "--moe-expert-parallel-size" : "--expert-model-parallel-size");
  long long ranks = static_cast<long long>(m.degrees.tensor) * m.degrees.pipeline;
  if (ranks > kMostRanks)
    m.arguments.refuse("--pipeline-model-parallel-size",
                       fmt::format("x tensor {} are {} ranks, more than {}", m.degrees.tensor, ranks, kMostRanks));
  ranks *= m.degrees.context;
  if (ranks > kMostRanks)
    m.arguments.refuse("--context-parallel-size", fmt::format("x tensor {} x pipeline {} are {} ranks, more than {}",
                                                              m.degrees.tensor, m.degrees.pipeline, ranks, kMostRanks));
}

// The fewest ranks that hold the model: one replica, or more where experts are divided over the ranks of several.
long long fewest_ranks(MegatronJob& m) {
  const long long replica = m.degrees.device_count(), inner = static_cast<long long>(m.degrees.tensor) * m.degrees.context;
  const long long experts = static_cast<long long>(m.degrees.expert) *
                            m.arguments.integer("--expert-tensor-parallel-size", 1, kMostRanks).value_or(m.degrees.tensor);
  return m.degrees.expert == 1 ? replica : replica * (experts / std::gcd(experts, inner));
}

// A launch script that states one node, and a model that needs more, is a template: its owner states the nodes elsewhere.
void widen(MegatronJob& m, JobMachine& machine) {
  const long long fewest = fewest_ranks(m), nodes = std::lcm<long long>(fewest, machine.per_node) / machine.per_node;
  if (machine.gpus != machine.per_node || machine.gpus >= fewest || nodes * machine.per_node > kMostRanks) return;
  m.job.assumptions.push_back(
      fmt::format("{} nodes of {} GPUs, the fewest that hold the model: the script states one, which does not; --gpus N states "
                  "another number.",
                  nodes, machine.per_node));
  machine.gpus = static_cast<int>(nodes) * machine.per_node;
  machine.origin = "assumed";
}

JobMachine read_machine(MegatronJob& m) {
  Arguments& a = m.arguments;
  JobMachine machine;
  if (m.options.gpus) {
    for (const char* launcher : {"--nnodes", "--nproc-per-node", "--world-size", "--num-gpus", "--num-nodes"}) a.ignore(launcher);
    machine.gpus = *m.options.gpus, machine.origin = m.options.gpus_origin;
  } else if (a.has("--nnodes") || a.has("--nproc-per-node")) {
    machine.per_node = a.integer("--nproc-per-node", 1, 1 << 10).value_or(kGpusOfANode);
    machine.gpus = machine.per_node * a.integer("--nnodes", 1, kMostRanks).value_or(1);
    machine.origin = "--nnodes x --nproc_per_node";
    widen(m, machine);
  } else if (a.has("--num-gpus") || a.has("--num-nodes")) {  // the launcher of DeepSpeed
    machine.per_node = a.integer("--num-gpus", 1, 1 << 10).value_or(kGpusOfANode);
    machine.gpus = machine.per_node * a.integer("--num-nodes", 1, kMostRanks).value_or(1);
    machine.origin = "--num_nodes x --num_gpus";
  } else if (const auto world = a.integer("--world-size", 1, kMostRanks)) {
    machine.gpus = *world, machine.origin = "--world-size";
  } else if (m.script.nodes > 0 && m.script.gpus_per_node > 0 && m.script.gpus_per_node <= (1 << 10)) {
    machine.per_node = m.script.gpus_per_node;
    machine.gpus = machine.per_node * m.script.nodes;
    machine.origin = "#SBATCH lines";
  } else {
    machine = assumed_machine(m.job, static_cast<int>(std::min<long long>(fewest_ranks(m), kMostRanks)));
  }
  return machine;
}

// Instances of the distributed optimizer divide its ranks, those that share samples included, into groups.
void read_shard_groups(MegatronJob& m) {
  const char* argument = "--num-distributed-optimizer-instances";
  const int instances = m.arguments.integer(argument, 1, kMostRanks).value_or(1);
  const int replicas = m.degrees.replicas();
  if (instances == 1) return;
  if (replicas % instances != 0)
    m.arguments.refuse(argument,
                       fmt::format("is {}, which does not divide the {} ranks with the same weights", instances, replicas), "");
  else
    m.job.set("parallel.shard", replicas / instances, argument);
}

void read_sharding(MegatronJob& m) {
  const bool distributed = m.arguments.flag("--use-distributed-optimizer");
  bool fsdp = false;
  for (const char* flag : {"--use-custom-fsdp", "--use-megatron-fsdp", "--use-torch-fsdp2"}) fsdp |= m.arguments.flag(flag);
  const std::string strategy = m.arguments.text("--data-parallel-sharding-strategy").value_or("optim_grads_params");
  if (!fsdp || strategy == "no_shard") {
    const bool layers = m.arguments.text("--optimizer").value_or("") == "dist_muon";  // its earlier name
    if (distributed || layers) m.job.set("parallel.zero", 1, distributed ? "--use-distributed-optimizer" : "--optimizer");
    if (distributed) read_shard_groups(m);
    return;
  }
  read_shard_groups(m);
  m.job.set("parallel.zero", strategy == "optim" ? 1 : strategy == "optim_grads" ? 2 : 3, "--data-parallel-sharding-strategy");
}

// Arguments that divide experts, and those that limit their tokens.
void read_expert_degrees(MegatronJob& m) {
  const int width = m.arguments.integer("--expert-tensor-parallel-size", 1, kMostRanks).value_or(m.degrees.tensor);
  if (width != m.degrees.tensor && width != 1)
    m.job.not_modelled.push_back(
        fmt::format("--expert-tensor-parallel-size {} (experts are cut like the rest, {})", width, m.degrees.tensor));
  else if (width != m.degrees.tensor)
    m.degrees.expert_tensor = width;
  for (const DegreeProblem& problem : check_degrees(m.degrees))
    m.arguments.refuse("--expert-model-parallel-size", fmt::format("is {}: {}", m.degrees.expert, problem.message), problem.help);
  put_expert(m.job, m.degrees.expert, m.degrees.expert_tensor, "--expert-model-parallel-size");
  const auto capacity = m.arguments.number("--moe-expert-capacity-factor");
  const bool padded = m.arguments.flag("--moe-pad-expert-input-to-capacity");
  if (capacity) put_capacity(m.job, *capacity, padded, "--moe-expert-capacity-factor");
}

// How keys and values travel: one type for all layers. Without context parallelism the argument moves nothing.
void read_context(MegatronJob& m) {
  if (m.degrees.context == 1) return;
  const std::vector<std::string> types = m.arguments.list("--cp-comm-type");
  std::string exchange;
  if (types.size() == 1 && types[0] == "p2p") exchange = "ring";
  if (types.size() == 1 && (types[0] == "all_gather" || types[0] == "allgather")) exchange = "all-gather";
  if (types.size() == 1 && types[0] == "a2a") exchange = "ulysses";
  if (m.arguments.has("--ds-sequence-parallel-size"))  // DeepSpeed's Ulysses
    return put_context(m.job, m.degrees.context, "--ds-sequence-parallel-size", "ulysses");
  if (!types.empty() && exchange.empty())
    m.job.not_modelled.push_back(one_line(fmt::format("--cp-comm-type {}", fmt::join(types, " "))) + " (predicted as a ring)");
  put_context(m.job, m.degrees.context, exchange.empty() ? "--context-parallel-size" : "--context-parallel-size, --cp-comm-type",
              exchange);
}

}  // namespace

void read_megatron_parallel(MegatronJob& m) {
  read_degrees(m);
  const JobMachine machine = read_machine(m);
  const std::string degrees =
      fmt::format("tensor {} x pipeline {} x context {}", m.degrees.tensor, m.degrees.pipeline, m.degrees.context);
  m.degrees.data = replicas_of(m.job, machine, m.degrees.device_count(), degrees);
  put_cluster(m.job, machine, m.options.cluster);
  m.job.set("parallel.pipeline", m.degrees.pipeline, "--pipeline-model-parallel-size");
  m.job.set("parallel.tensor", m.degrees.tensor, "--tensor-model-parallel-size");
  m.job.set("parallel.data", m.degrees.data,
            fmt::format("{} GPUs / (tensor x pipeline{})", machine.gpus, m.degrees.context > 1 ? " x context" : ""));
  read_context(m);
  read_expert_degrees(m);
  if (m.arguments.flag("--use-tp-pp-dp-mapping") && m.degrees.pipeline > 1 && m.degrees.data > 1)
    m.job.set("placement",
              fmt::format("[{}]", fmt::join(devices_of_replicas_in_a_row(m.degrees.tensor * m.degrees.context, m.degrees.data,
                                                                         m.degrees.pipeline),
                                            ", ")),
              "--use-tp-pp-dp-mapping: the ranks of a replica are neighbours");
  if (m.arguments.flag("--sequence-parallel")) m.job.set("parallel.sequence_parallel", "true", "--sequence-parallel");
  read_sharding(m);
}

}  // namespace panpipe::jobs
