#include "costmodel/workload/tuning.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "base/text/did_you_mean.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

constexpr const char* kAllLinear = "all-linear";

bool matches(const std::string& pattern, const std::string& name) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

std::string last_name(const std::string& module) { return module.substr(module.find_last_of('.') + 1); }

bool is_factor(const std::string& parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

// A word, or a list of words.
std::vector<std::string> read_words(const Node& node, ReadLog& log) {
  std::vector<std::string> words;
  const auto add = [&](const Node& item) {
    if (const auto word = read_string(item, log)) words.push_back(*word);
  };
  if (node.kind == NodeKind::Sequence)
    for (const auto& item : node.items) add(*item);
  else
    add(node);
  return words;
}

void read_lora(const Node& node, ReadLog& log, Tuning& tuning) {
  MapReader map(node, log);
  tuning.rank = map.integer("rank", 1);
  tuning.alpha = map.number("alpha", Sign::Positive, tuning.rank > 0 ? tuning.rank : 1);
  if (const Node* targets = map.require("targets")) {
    tuning.targets = read_words(*targets, log);
    if (tuning.targets.empty())
      log.error(*targets, "LoRA without targets trains nothing",
                "name modules, as in 'targets: [q_proj, v_proj]', or 'all-linear'");
  }
  tuning.dropout = map.number("dropout", Sign::NonNegative, 0.0);
  if (tuning.dropout >= 1) log.error(*map.find("dropout"), fmt::format("a dropout of {} leaves nothing", tuning.dropout));
  tuning.quantized = map.choice<bool>("base", {{"bf16", false}, {"nf4", true}}, false);
  map.finish();
}

// The last names of modules that a target may name.
std::vector<std::string> products_of(const OperatorGraph& graph) {
  std::set<std::string> names;
  for (const Operator& op : graph.operators)
    if (row_of(op).role == OperatorRole::Product && !is_of_adapter(op)) names.insert(last_name(op.module));
  return {names.begin(), names.end()};
}

}  // namespace

Tuning read_tuning(MapReader& workload) {
  Tuning tuning;
  if (const Node* lora = workload.find("lora")) read_lora(*lora, workload.log(), tuning);
  if (const Node* frozen = workload.find("frozen")) tuning.frozen = read_words(*frozen, workload.log());
  return tuning;
}

bool is_trained(const Tuning& tuning, const std::string& parameter) {
  if (std::any_of(tuning.frozen.begin(), tuning.frozen.end(), [&](const auto& pattern) { return matches(pattern, parameter); }))
    return false;
  return tuning.rank == 0 || is_factor(parameter);
}

bool is_of_adapter(const Operator& op) {
  return op.module.ends_with(".lora_A") || op.module.ends_with(".lora_B") || op.module.ends_with(".lora_dropout");
}

bool has_adapter(const Tuning& tuning, const std::string& module, bool in_block) {
  if (tuning.rank == 0) return false;
  return std::any_of(tuning.targets.begin(), tuning.targets.end(),
                     [&](const std::string& target) { return target == kAllLinear ? in_block : last_name(module) == target; });
}

void check_tuning(const Tuning& tuning, const OperatorGraph& graph) {
  const auto any_parameter = [&](auto wanted) {
    return std::any_of(graph.tensors.begin(), graph.tensors.end(),
                       [&](const Tensor& t) { return t.role == TensorRole::Parameter && wanted(t); });
  };
  for (const std::string& target : tuning.targets) {
    const std::string ending = (target == kAllLinear ? "" : "." + target) + ".lora_A.weight";
    if (any_parameter([&](const Tensor& t) { return t.name.ends_with(ending) || "." + t.name == ending; })) continue;
    const std::vector<std::string> products = products_of(graph);
    throw InputError(fmt::format("lora: the model has no product '{}'{}; it has {}, or 'all-linear'", target,
                                 suggestion(target, products), list_of(products)));
  }
  for (const std::string& pattern : tuning.frozen)
    if (!any_parameter([&](const Tensor& t) { return matches(pattern, t.name); }))
      throw InputError(
          fmt::format("frozen: no parameter of the model matches '{}'; parameters have names as in transformers, such as "
                      "'{}'",
                      pattern, std::find_if(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& t) {
                                 return t.role == TensorRole::Parameter;
                               })->name));
  if (!any_parameter([](const Tensor& t) { return t.requires_gradient; }))
    throw InputError("every parameter is frozen: there is nothing to train");
}

}  // namespace panpipe
