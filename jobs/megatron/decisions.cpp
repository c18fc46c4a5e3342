#include "jobs/megatron/decisions.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "jobs/export_parts.hpp"
#include "jobs/megatron/export.hpp"
#include "jobs/shell/shell_words.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::string_view kLayoutOption = "--pipeline-model-parallel-layout";
constexpr std::string_view kPerStageOption = "--num-layers-per-virtual-pipeline-stage";
constexpr std::string_view kPerRank = "--num-virtual-stages-per-pipeline-rank";
constexpr std::string_view kPipeline = "--pipeline-model-parallel-size", kTensor = "--tensor-model-parallel-size";

// Arguments that a decision needs and a job may have for other reasons: they are added where they are missing, and stay.
constexpr std::string_view kOnlyAdded[] = {"--moe-token-dispatcher-type", "--moe-flex-dispatcher-backend",
                                           "--overlap-grad-reduce", "--overlap-param-gather"};

const std::vector<MegatronDecision>& decisions() {
  static const std::vector<MegatronDecision> table = {
      {"tensor parallelism", {kTensor}, kPipeline},
      {"pipeline degree", {kPipeline}, kTensor},
      {"sequence parallelism", {"--sequence-parallel"}, kTensor},
      {"context parallelism", {"--context-parallel-size"}, kPipeline},
      {"exchange of keys and values", {"--cp-comm-type"}, "--context-parallel-size"},
      {"expert parallelism", {"--expert-model-parallel-size"}, kPipeline},
      {"tensor parallelism of experts", {"--expert-tensor-parallel-size"}, "--expert-model-parallel-size"},
      {"dispatch of tokens", {"--moe-token-dispatcher-type", "--moe-flex-dispatcher-backend"}, "--expert-model-parallel-size"},
      {"microbatches", {"--micro-batch-size"}, "--global-batch-size"},
      {"global batch", {"--global-batch-size"}, "--micro-batch-size"},
      {"stages",
       {kLayoutOption, kPerStageOption, kPerRank, "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
        "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"},
       kPipeline},
      {"turns of an interleaved schedule", {"--microbatch-group-size-per-virtual-pipeline-stage"}, kPipeline},
      {"ZeRO",
       {"--use-distributed-optimizer", "--use-megatron-fsdp", "--use-custom-fsdp", "--use-torch-fsdp2",
        "--data-parallel-sharding-strategy"},
       kPipeline,
       {"--no-gradient-accumulation-fusion", "--ckpt-format"}},
      {"overlap under ZeRO", {"--overlap-grad-reduce", "--overlap-param-gather"}, "--use-distributed-optimizer"},
      {"recompute",
       {"--recompute-granularity", "--recompute-method", "--recompute-num-layers", "--recompute-modules",
        "--recompute-activations", "--checkpoint-activations", "--activations-checkpoint-method",
        "--activations-checkpoint-num-layers"},
       "--micro-batch-size"},
      {"order of the ranks", {"--use-tp-pp-dp-mapping"}, kPipeline},
  };
  return table;
}

std::vector<Argument> arguments_of(const ArgumentLines& lines) {
  std::vector<Argument> arguments;
  for (const ShellWord& word : shell_words(fmt::format("{}", fmt::join(lines, " ")), "the plan"))
    if (word.text.starts_with("--"))
      arguments.push_back({word.text, {}});
    else
      arguments.back().values.push_back(word.text);
  return arguments;
}

// What FSDP asserts.
void add_needs(const Plan& plan, std::vector<Argument>& arguments) {
  if (plan.zero >= 2 && plan.replicas() > 1) arguments.push_back({"--overlap-grad-reduce", {}});
  if (plan.zero == 3 && plan.replicas() > 1) arguments.push_back({"--overlap-param-gather", {}});
}

std::vector<Argument> plan_arguments(const ExportRequest& request) {
  std::vector<Argument> arguments = arguments_of(megatron_plan_lines(request));
  add_needs(request.plan, arguments);
  return arguments;
}

bool contains(const std::vector<std::string_view>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<Argument> of_decision(const std::vector<Argument>& all, const MegatronDecision& decision) {
  std::vector<Argument> own;
  for (const Argument& argument : all)
    if (contains(decision.options, argument.option) || contains(decision.with, argument.option)) own.push_back(argument);
  return own;
}

bool has(const std::vector<Argument>& all, std::string_view option) {
  return std::any_of(all.begin(), all.end(), [&](const Argument& argument) { return argument.option == option; });
}

// Arguments that Megatron-LM refuses without another one.
struct Need {
  std::string_view option, needs;
};
constexpr Need kNeeds[] = {{"--overlap-param-gather", "--use-distributed-optimizer"},
                           {"--fp8-param-gather", "--use-distributed-optimizer"},
                           {"--tp-comm-overlap", "--sequence-parallel"}};

// Even stages need no layout, unless the job has one.
std::vector<Argument> stage_arguments(const ExportRequest& request, const Arguments& own, std::vector<Argument> layout) {
  if (layout.empty() || own.has(std::string(kLayoutOption))) return layout;
  const std::vector<int> layers = layers_of_stages(request, "Megatron-LM");
  if (std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) != layers.end()) return layout;
  const int each = static_cast<int>(layers.size()) / request.plan.pipeline;
  if (each == 1) return {};
  if (own.has(std::string(kPerRank))) return {{std::string(kPerRank), {std::to_string(each)}}};
  return {{std::string(kPerStageOption), {std::to_string(layers.front())}}};
}

bool only_added(const MegatronDecision& decision) {
  return std::find(std::begin(kOnlyAdded), std::end(kOnlyAdded), decision.options.front()) != std::end(kOnlyAdded);
}

}  // namespace

std::vector<MegatronChange> megatron_changes(const ExportRequest& before, const ExportRequest& after, const Arguments& own) {
  const std::vector<Argument> old_ones = plan_arguments(before), new_ones = plan_arguments(after);
  std::vector<MegatronChange> changes;
  for (const MegatronDecision& decision : decisions()) {
    const std::vector<Argument> old_own = of_decision(old_ones, decision);
    std::vector<Argument> wanted = of_decision(new_ones, decision);
    if (wanted == old_own) continue;
    const bool adds = only_added(decision);
    if (adds) std::erase_if(wanted, [&](const Argument& argument) { return own.has(argument.option); });
    if (decision.options.front() == kLayoutOption) wanted = stage_arguments(after, own, std::move(wanted));
    MegatronChange change{&decision, std::move(wanted), {}};
    const auto remove = [&](std::string_view option) {
      if (own.has(std::string(option)) && !has(change.wanted, option)) change.removed.emplace_back(option);
    };
    for (const std::string_view option : decision.options)
      if (!adds) remove(option);
    for (const std::string_view option : decision.with)
      if (has(old_own, option)) remove(option);
    for (const Need& need : kNeeds)
      if (has(old_own, need.needs) && !has(change.wanted, need.needs)) remove(need.option);
    if (!change.wanted.empty() || !change.removed.empty()) changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace panpipe::jobs
