#include "present/result/heading.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/text/counted.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/scenario/dynamic_context.hpp"
#include "costmodel/scenario/hosted_text.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/scenario/trainer.hpp"

namespace panpipe::present {
namespace {

// "774.0 M", "6.738 B": four digits, as models are spoken of.
std::string parameters_text(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  if (count >= 1e9) return fmt::format("{:#.4g} B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:#.4g} M", count / 1e6);
  return std::to_string(parameters);
}

// The value that a key was resolved to; empty where there is none.
std::string resolved_value(const Scenario& scenario, const std::string& path) {
  for (auto value = scenario.resolved.rbegin(); value != scenario.resolved.rend(); ++value)
    if (value->path == path) return value->value;
  return "";
}

// The file as the scenario names it.
std::string cluster_reference(const Scenario& scenario) {
  const Node* cluster = scenario.document ? scenario.document->find("cluster") : nullptr;
  if (cluster != nullptr && cluster->kind == NodeKind::Map) cluster = cluster->find("file");
  return cluster != nullptr && cluster->kind == NodeKind::Scalar ? cluster->text : "";
}

// The recompute of all stages, or the number of stages that do any.
std::string recompute_text(const Plan& plan, const RecomputeScope& scope) {
  const auto count = std::count_if(plan.stages.begin(), plan.stages.end(),
                                   [](const StagePlan& stage) { return stage.recompute != Recompute::None; });
  if (count == 0) return "";
  const Recompute most = most_recompute(plan);
  const bool alike =
      std::all_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& stage) { return stage.recompute == most; });
  RecomputeScope of_plan = scope;
  of_plan.firsts = first_blocks(plan);
  if (alike || !of_plan.firsts.empty()) return "recompute " + recompute_words(most, of_plan);
  return fmt::format("recompute on {} of {} stages", count, plan.stages.size());
}

std::string schedule_text(const std::string& name, int stages_per_rank) {
  return stages_per_rank > 1 ? fmt::format("{} with {} stages a rank", name, stages_per_rank) : name;
}

std::string zero_text(int zero, int shard) {
  return shard > 0 ? fmt::format("ZeRO {} in groups of {}", zero, shard) : fmt::format("ZeRO {}", zero);
}

// How the ranks of an axis exchange, where the heading states it: " (ring)".
std::string exchange_text(const Axis& axis, ContextExchange exchange) {
  if (axis.number != &Degrees::context) return "";
  return exchange == ContextExchange::Ring ? " (ring)" : exchange == ContextExchange::Ulysses ? " (ulysses)" : " (all-gather)";
}

// Which ranks share out experts, and how unevenly tokens fall on them; empty where nobody does.
std::string experts_text(int expert, int expert_tensor, const ExpertLoad& load) {
  std::string text = expert > 1 ? fmt::format("experts over {}", expert) : "";
  const auto add = [&](const std::string& word) { text += (text.empty() ? "experts " : ", ") + word; };
  if (expert_tensor > 0) add(fmt::format("tensor {}", expert_tensor));
  if (load.imbalance) add(fmt::format("imbalance {}", *load.imbalance));
  if (!load.tokens.empty()) add("counted tokens");
  if (load.zipf) add(fmt::format("zipf {}", *load.zipf));
  if (load.placement == ExpertPlacement::Balanced) add("placed by load");
  if (load.placement == ExpertPlacement::Given) add("placed as listed");
  if (load.capacity) add(fmt::format("capacity {}{}", *load.capacity, load.padded ? "" : " without padding"));
  return text;
}

class Heading {
 public:
  Heading(const Scenario& scenario, const Workload& workload, std::vector<std::string> swept = {}, bool planned = false)
      : scenario_(scenario), workload_(workload), swept_(std::move(swept)), planned_(planned) {}

  std::string of(const Plan& plan) const {
    std::vector<std::string> terms;
    add_degrees(
        plan, terms, [](const Axis&) { return true; }, scenario_.expert_load);
    terms.push_back(schedule_text(plan.schedule.name, plan.schedule.ranks > 0 ? plan.schedule.stages / plan.schedule.ranks : 1));
    if (const std::string recompute = recompute_text(plan, scenario_.recompute_scope); !recompute.empty())
      terms.push_back(recompute);
    add_arithmetic(terms);
    return where() + fmt::format("{}; {}\n", fmt::join(terms, ", "), batch_text(plan, plan.schedule.microbatches));
  }

  // Without a plan: the facts that no search and no sweep changes, then the keys that they change.
  std::string common() const {
    std::vector<std::string> terms, open;
    degrees(terms, open);
    const bool own_schedule = stated("schedule", open);
    if (own_schedule)
      terms.push_back(schedule_text(schedule_name(), is_swept("parallel.virtual_stages") ? 1 : scenario_.degrees.virtual_stages));
    if (stated("recompute", open) && scenario_.recompute != Recompute::None)
      terms.push_back("recompute " + recompute_words(scenario_.recompute, scenario_.recompute_scope));
    add_arithmetic(terms);
    std::string line = fmt::format("{}", fmt::join(terms, ", "));
    const auto also = [&](const std::string& text) {
      if (!text.empty()) line += (line.empty() ? "" : "; ") + text;
    };
    also(common_batch(open));
    if (!open.empty()) also(fmt::format("open: {}", fmt::join(open, ", ")));
    if (!swept_.empty()) also(fmt::format("swept: {}", fmt::join(swept_, ", ")));
    return where() + line + "\n";
  }

 private:
  // Whether a sweep varies the key, a part of it, or what it is a part of.
  bool is_swept(const std::string& key) const {
    return std::any_of(swept_.begin(), swept_.end(), [&](const std::string& swept) {
      const auto inside = [](const std::string& part, const std::string& whole) {
        return part.rfind(whole, 0) == 0 && (part.size() == whole.size() || part[whole.size()] == '.');
      };
      return inside(key, swept) || inside(swept, key);
    });
  }
  bool any_swept(std::initializer_list<const char*> keys) const {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return is_swept(key); });
  }

  // Whether the answer is about one value of the key. Values that a planner may choose are noted as open.
  bool stated(const std::string& key, std::vector<std::string>& open) const {
    if (is_swept(key)) return false;
    if (!planned_ || !is_open(scenario_, key)) return true;
    open.push_back(key.substr(key.find('.') + 1));
    return false;
  }

  // The degrees of those axes that are `shown`.
  template <class Shown>
  void add_degrees(const Degrees& degrees, std::vector<std::string>& terms, Shown shown, const ExpertLoad& load) const {
    Degrees seen;
    std::vector<std::string> product;
    for (const Axis& axis : kAxes) {
      if (!axis.written(degrees) || !shown(axis)) continue;
      axis.put(seen, axis.of(degrees));
      if (axis.multiplies)
        product.push_back(fmt::format("{} {}{}", axis.key, axis.of(degrees), exchange_text(axis, scenario_.context_exchange)));
    }
    if (!product.empty()) terms.push_back(fmt::format("{}", fmt::join(product, " x ")));
    if (const std::string experts = experts_text(seen.expert, seen.expert_tensor, load); !experts.empty())
      terms.push_back(experts);
    if (seen.zero > 0) terms.push_back(zero_text(seen.zero, degrees.shard));
    if (seen.sequence_parallel) terms.emplace_back("sequence parallel");
  }

  void degrees(std::vector<std::string>& terms, std::vector<std::string>& open) const {
    // Not written, it is what the other degrees leave of the devices.
    const bool derived = is_open(scenario_, "parallel.pipeline") && any_swept({"cluster", "parallel.tensor", "parallel.data"});
    const auto shown = [&](const Axis& axis) {
      const std::string key = fmt::format("parallel.{}", axis.key);
      if (!axis.always || axis.flag != nullptr) return !is_swept(key);
      return stated(key, open) && (axis.number != &Degrees::pipeline || !derived);
    };
    add_degrees(scenario_.degrees, terms, shown, is_swept("experts") ? ExpertLoad{} : scenario_.expert_load);
  }

  std::string schedule_name() const {
    if (scenario_.schedule.csv.empty()) return scenario_.schedule.name;
    return "schedule of " + std::filesystem::path(scenario_.schedule.csv).filename().string();
  }

  // Precision, framework and profile: what the costs rest on.
  void add_arithmetic(std::vector<std::string>& terms) const {
    if (!is_swept("precision")) terms.emplace_back(panpipe::name_of(scenario_.precision));
    add_state(terms);
    add_framework(terms);
    if (scenario_.profile && !is_swept("profile")) terms.push_back("profile " + profile_reference());
  }

  // The trainer, and the framework where it is not the trainer's own.
  void add_framework(std::vector<std::string>& terms) const {
    const Trainer* trainer = is_swept("trainer") ? nullptr : scenario_.trainer.get();
    if (trainer != nullptr)
      terms.push_back(fmt::format("trainer {}{}{}", trainer->name, trainer->release.empty() ? "" : " ", trainer->release));
    if (trainer != nullptr && trainer->framework == scenario_.framework.title()) return;
    const bool by_model = is_open(scenario_, "framework");
    if (!scenario_.cluster.given && !is_swept("framework") && !(by_model && any_swept({"workload", "cluster"}))) {
      const std::string origin = origin_of(scenario_, "framework");
      terms.push_back("framework " + scenario_.framework.title() + (origin.rfind("default", 0) == 0 ? " (" + origin + ")" : ""));
    }
  }

  // The trained parameters, and the place of offloaded state.
  void add_state(std::vector<std::string>& terms) const {
    const Tuning& tuning = scenario_.workload.tuning;
    if (tuning.any() && !any_swept({"workload.lora", "workload.frozen"}))
      terms.push_back(fmt::format("{} trained{}", parameters_text(workload_.trained_parameters),
                                  tuning.rank > 0 ? fmt::format(" (LoRA of rank {})", tuning.rank) : ""));
    if (const std::string hosted = hosted_text(scenario_.offload); !hosted.empty() && !is_swept("offload"))
      terms.push_back(hosted);
  }

  std::string profile_reference() const {
    const Node* profile = scenario_.document ? scenario_.document->find("profile") : nullptr;
    if (profile == nullptr) return "given";
    if (profile->kind != NodeKind::Sequence) return profile->text;
    return counted(static_cast<long long>(profile->items.size()), "file");
  }

  std::string batch_text(const Degrees& degrees, int microbatches) const {
    const std::vector<SequenceShape>& shapes = scenario_.lengths.shapes;
    const std::string lengths =
        shapes.size() < 2 ? "" : fmt::format(", {} to {} tokens", shapes.back().tokens(), shapes.front().tokens());
    if (has_dynamic_context(scenario_))
      return fmt::format("global batch {} in {} microbatches over {} ranks, context 1 to {}{}",
                         listed_sequences(scenario_).size(), microbatches, degrees.replicas(), degrees.context, lengths);
    return fmt::format("global batch {} = {} {} of {} x {}{}",
                       static_cast<long long>(microbatches) * degrees.micro * degrees.data, microbatches,
                       microbatches == 1 ? "microbatch" : "microbatches", degrees.micro,
                       degrees.context > 1 ? fmt::format("data {}", degrees.data) : counted(degrees.data, "replica"), lengths);
  }

  // A plan keeps the global batch; a sweep over replicas keeps what the scenario states.
  std::string common_batch(std::vector<std::string>& open) const {
    const Degrees& all = scenario_.degrees;
    const long long global = static_cast<long long>(all.microbatches) * all.micro * all.data;
    stated("batch.micro", open);
    if (any_swept({"batch.global", "batch.microbatches"})) return "";
    if (!is_open(scenario_, "batch.global")) return fmt::format("global batch {}", global);
    if (is_swept("batch.micro")) return "";
    if (is_swept("parallel.data"))
      return fmt::format("{} {} of {} a replica", all.microbatches, all.microbatches == 1 ? "microbatch" : "microbatches",
                         all.micro);
    return planned_ ? fmt::format("global batch {}", global) : batch_text(all, all.microbatches);
  }

  std::string model() const {
    const WorkloadRequest& asked = scenario_.workload;
    const std::string parameters = parameters_text(workload_.parameters) + " parameters";
    if (!asked.pt2_file.empty())
      return fmt::format("exported model {} ({})", std::filesystem::path(asked.pt2_file).filename().string(), parameters);
    if (workload_.layers)
      return fmt::format("{} of {}", counted(static_cast<long long>(workload_.layers->layers.size()), "measured layer"),
                         std::filesystem::path(asked.layers_file).filename().string());
    std::string sizes;
    if (const std::string layers = resolved_value(scenario_, "workload.layers"); !layers.empty()) sizes += layers + " layers, ";
    if (const std::string hidden = resolved_value(scenario_, "workload.hidden"); !hidden.empty())
      sizes += "hidden " + hidden + ", ";
    return fmt::format("{} ({}{})", workload_.name, sizes, parameters);
  }

  std::string cluster() const {
    const Cluster& cluster = scenario_.cluster;
    const std::string text = devices_of(cluster);
    const std::string reference = cluster_reference(scenario_);
    return reference.empty() ? text : fmt::format("{} ({})", text, reference);
  }

  std::string where() const {
    std::string line;
    if (!is_swept("workload")) line = model();
    if (!is_swept("cluster")) line += (line.empty() ? "on " : " on ") + cluster();
    return line.empty() ? "" : line + "\n";
  }

  const Scenario& scenario_;
  const Workload& workload_;
  std::vector<std::string> swept_;
  bool planned_;
};

}  // namespace

std::string devices_of(const Cluster& cluster) {
  if (cluster.given) return counted(cluster.size(), "device");
  std::vector<std::pair<std::string, int>> counts;  // a slow device is of a type of its own, with its name
  std::vector<int> of_type(cluster.types.size(), 0);
  for (const Device& device : cluster.devices) ++of_type[at(device.type)];
  for (std::size_t t = 0; t < of_type.size(); ++t) {
    const auto same = [&](const auto& known) { return known.first == cluster.types[t].name; };
    if (const auto known = std::find_if(counts.begin(), counts.end(), same); known != counts.end())
      known->second += of_type[t];
    else if (of_type[t] > 0)
      counts.emplace_back(cluster.types[t].name, of_type[t]);
  }
  std::vector<std::string> texts;
  for (const auto& [name, count] : counts) texts.push_back(fmt::format("{} x {}", count, name));
  return list_of(texts) + (cluster.nodes > 1 ? fmt::format(" in {} nodes", cluster.nodes) : std::string());
}

std::string heading_of(const Scenario& scenario, const Workload& workload, const Plan& plan) {
  return Heading(scenario, workload).of(plan);
}

std::string heading_of_search(const Scenario& scenario, const Workload& workload) {
  return Heading(scenario, workload, {}, true).common();
}

std::string heading_of_sweep(const Scenario& scenario, const Workload& workload, const std::vector<std::string>& keys,
                             bool planned) {
  return Heading(scenario, workload, keys, planned).common();
}

}  // namespace panpipe::present
