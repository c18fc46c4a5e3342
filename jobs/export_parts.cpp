#include "jobs/export_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.hpp"
#include "base/text/json_writer.hpp"
#include "base/version.hpp"
#include "costmodel/workload/language_model.hpp"
#include "jobs/job.hpp"
#include "jobs/job_machine.hpp"
#include "schedule/find_family.hpp"
#include "schedule/rolling.hpp"

namespace panpipe::jobs {
namespace {

bool has_order(const Schedule& schedule, std::string_view family, const ScheduleOptions& options) {
  try {
    const Schedule made = make_schedule(family, schedule.ranks, schedule.microbatches, options);
    return made.order == schedule.order && made.stage_to_rank == schedule.stage_to_rank;
  } catch (const InputError&) {
    return false;  // the family has no order of these sizes
  }
}

using Section = std::pair<std::string, std::vector<Setting>>;

// By the first part of their keys, in the order of first mention; a setting without further parts has an empty key.
std::vector<Section> sections_of(const std::vector<Setting>& settings) {
  std::vector<Section> sections;
  for (const auto& [path, value] : settings) {
    const std::size_t point = path.find('.');
    const std::string name = path.substr(0, point);
    auto found = std::find_if(sections.begin(), sections.end(), [&](const Section& section) { return section.first == name; });
    if (found == sections.end()) found = sections.insert(found, {name, {}});
    found->second.emplace_back(point == std::string::npos ? "" : path.substr(point + 1), value);
  }
  return sections;
}

std::vector<std::string> json_entries(const std::vector<Setting>& settings) {
  std::vector<std::string> entries;
  for (const auto& [name, inner] : sections_of(settings))
    entries.push_back(fmt::format(
        "{}: {}", json_text(name),
        inner.front().first.empty() ? inner.front().second : fmt::format("{{{}}}", fmt::join(json_entries(inner), ", "))));
  return entries;
}

}  // namespace

std::optional<KnownOrder> known_order(const Schedule& schedule, const std::vector<std::string>& names) {
  if (rolling_of(schedule) != Rolling::None) return std::nullopt;  // the same rows, but not the same steps
  const int per_rank = schedule.stages / std::max(1, schedule.ranks);
  for (const std::string& name : names) {
    const ScheduleFamily* family = find_family(name);
    if (family == nullptr || family->searched()) continue;
    ScheduleOptions options;
    if (default_option(*family, "stages_per_rank")) {
      if (per_rank < 2) continue;
      options["stages_per_rank"] = std::to_string(per_rank);
    }
    if (has_order(schedule, name, options)) return KnownOrder{name};
    if (!default_option(*family, "group") || name != "interleaved-1f1b") continue;
    for (int turn = schedule.ranks; turn <= schedule.microbatches; ++turn) {
      options["group"] = std::to_string(turn);
      if (has_order(schedule, name, options)) return KnownOrder{name, turn};
    }
  }
  return std::nullopt;
}

std::vector<int> layers_of_stages(const ExportRequest& request, std::string_view trainer) {
  const OperatorGraph& graph = *request.experiment.workload.graph;
  const Plan& plan = request.plan;
  if (plan.schedule.chains.size() != 1)
    throw InputError(fmt::format("{}: {} has one way through the stages, and the plan has {}", request.scenario, trainer,
                                 plan.schedule.chains.size()));
  std::vector<int> layers;
  for (const int s : plan.schedule.chains.front()) {
    const StagePlan& stage = plan.stages[s];
    const auto layer_at = [&](int unit) {
      return unit < 0 || unit >= static_cast<int>(graph.units.size()) ? -1 : graph.units[unit].layer;
    };
    const int cut = layer_at(stage.first_unit);
    if (cut >= 0 && cut == layer_at(stage.first_unit - 1))
      throw InputError(fmt::format("{}: stage {} begins inside layer {} ({}), and {} cuts between layers", request.scenario, s,
                                   cut, graph.units[stage.first_unit].name, trainer),
                       fmt::format("panpipe plan --for plans such cuts; a partition names them: [{}]",
                                   graph.units[stage.first_unit - 1].name));
    int count = 0;
    for (int unit = stage.first_unit; unit < stage.end_unit; ++unit)
      if (layer_at(unit) >= 0 && layer_at(unit) != layer_at(unit - 1)) ++count;
    layers.push_back(count);
  }
  return layers;
}

std::string head_text(const ExportRequest& request, std::string_view what, const ExportedJob& job, const std::string& mark) {
  const std::string of_plan = request.plan_file.empty() ? "its own plan" : "plan " + request.plan_file;
  std::string text =
      mark + without_controls(fmt::format("{}: {}, {}. Written by panpipe {}.", what, request.scenario, of_plan, kVersion)) +
      "\n";
  for (const std::string& sentence : job.besides) text += fmt::format("{}{}\n", mark, without_controls(sentence));
  for (const std::string& phrase : job.cannot) text += fmt::format("{}cannot express {}\n", mark, without_controls(phrase));
  return text;
}

Recompute recompute_of(const Plan& plan, ExportedJob& job) {
  Recompute mode = Recompute::None;
  bool differ = false, some = false;
  for (const StagePlan& stage : plan.stages) {
    differ = differ || stage.recompute != plan.stages.front().recompute;
    some = some || stage.recompute_first > 0;
    mode = std::max(mode, stage.recompute);
  }
  if (some)
    job.cannot.emplace_back("a number of blocks that recompute for each stage: all blocks of all stages do");
  else if (differ)
    job.cannot.emplace_back("recompute that differs from stage to stage: all stages recompute as the one that does most");
  return mode;
}

void report_devices(const Plan& plan, ExportedJob& job) {
  for (std::size_t i = 0; i < plan.devices.size(); ++i)
    if (plan.devices[i] != static_cast<int>(i)) {
      job.cannot.push_back(
          fmt::format("the placement on devices [{}]: start ranks on the machines so that rank r (tensor fastest, then data, "
                      "then pipeline) is "
                      "on the r-th of them",
                      fmt::join(plan.devices, ", ")));
      return;
    }
}

void report_optimizer(const Scenario& scenario, ExportedJob& job) {
  for (const OptimizerRequest::Group& group : scenario.optimizer.groups)
    job.cannot.push_back(fmt::format("optimizer.groups: numbers of their own for '{}'", group.match));
  if (!scenario.optimizer.no_decay.empty())
    job.cannot.push_back(fmt::format("optimizer.no_decay: [{}]", fmt::join(scenario.optimizer.no_decay, ", ")));
  if (scenario.training.evaluate_every > 0) job.cannot.emplace_back("training.evaluate");
  if (!scenario.workload.weights.empty()) job.cannot.push_back("workload.weights: the model begins with drawn values");
}

bool states(const Scenario& scenario, const std::string& path) {
  const Node* node = scenario.document.get();
  for (std::size_t start = 0; node != nullptr && start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    node = node->kind == NodeKind::Map ? node->find(path.substr(start, end - start)) : nullptr;
    start = end + 1;
  }
  return node != nullptr && node->kind != NodeKind::Null;
}

bool LeftOut::states(const std::string& path, const std::string& word) {
  const bool stated = jobs::states(scenario_, path);
  if (!stated) add(word);
  return stated;
}

void LeftOut::report(const std::string& without, ExportedJob& job) const {
  if (words_.empty()) return;
  job.besides.push_back(
      fmt::format("Left out, because the scenario does not state it: {}. Add your own; {}.", fmt::join(words_, ", "), without));
}

void report_traits(const TransformerTraits& t, ExportedJob& job) {
  const auto cannot_if = [&](bool has, const char* phrase) {
    if (has) job.cannot.emplace_back(phrase);
  };
  cannot_if(t.form != BlockForm::PreNorm, "layers in another form than x + f(norm(x))");
  cannot_if(t.head_bias, "a bias of the head");
  cannot_if(t.embedding_norm, "a norm behind the embedding");
  cannot_if(t.embedding_width > 0, "an embedding narrower than the layers");
  cannot_if(t.scaled_embedding, "an embedding that is scaled by the square root of the hidden size");
  cannot_if(t.score_cap > 0 || t.logit_cap > 0, "capped scores or logits");
  cannot_if(t.sinks, "attention sinks");
  cannot_if(t.attention_scale > 0, "a scale of the attention scores of its own");
  cannot_if(!t.final_norm, "a model without a norm behind the last layer");
  cannot_if(t.has_linear() || !t.without_mlp.empty(),
            "layers of several kinds: those with a state have attention, all have an MLP");
  cannot_if(t.further_tokens > 0, "layers that predict further tokens");
  cannot_if(t.index.heads > 0, "keys that each query chooses");
  cannot_if(t.output_gate != OutputGate::None, "a gate behind the attention");
  cannot_if(t.query_key_norm == QueryKeyNorm::Unweighted, "norms of queries and keys without weights");
  cannot_if(t.norm == NormKind::LayerWithoutBias, "LayerNorm without biases");
  cannot_if(t.embedding_scale != 1 || t.residual_scale != 1 || t.logit_scale != 1,
            "scaled embedding, residual streams or logits");
  cannot_if(t.experts.latent > 0, "experts narrower than the hidden size");
}

bool replicas_in_a_row(const Plan& plan) {
  if (plan.pipeline == 1 || plan.data == 1) return false;
  const int inner = static_cast<int>(plan.devices.size()) / (plan.pipeline * plan.data);
  return plan.devices == devices_of_replicas_in_a_row(inner, plan.data, plan.pipeline);
}

int context_ranks(const Plan& plan) { return static_cast<int>(plan.devices.size()) / (plan.pipeline * plan.data * plan.tensor); }

std::optional<std::int64_t> steps_of_run(const ExportRequest& request) {
  const std::optional<RunRequest>& run = request.experiment.scenario.run;
  if (!run) return std::nullopt;
  const Plan& plan = request.plan;
  const auto model = language_model_of(request.experiment.scenario.workload);
  const double samples = double(plan.micro) * plan.schedule.microbatches * plan.data;
  double steps = run->amount;
  if (run->counted == RunRequest::Counted::Samples) steps /= samples;
  if (run->counted == RunRequest::Counted::Tokens) {
    if (!model) return std::nullopt;
    steps /= samples * model->dimensions.sequence;
  }
  return static_cast<std::int64_t>(std::ceil(steps));
}

Machines machines_of(const ExportRequest& request) {
  const Cluster& cluster = request.experiment.scenario.cluster;
  const int ranks = static_cast<int>(request.plan.devices.size());
  const int of_node = std::max(1, cluster.size() / std::max(1, cluster.nodes)), per_node = std::min(ranks, of_node);
  return {(ranks + per_node - 1) / per_node, per_node};
}

std::string launch_text(const ExportRequest& request) {
  const auto [nodes, per_node] = machines_of(request);
  return fmt::format("torchrun{} --nproc-per-node {}", nodes > 1 ? fmt::format(" --nnodes {}", nodes) : "", per_node);
}

std::string yaml_text(const std::vector<Setting>& settings) {
  std::string text;
  for (const auto& [name, inner] : sections_of(settings)) {
    if (inner.front().first.empty()) {
      text += fmt::format("{}: {}\n", name, inner.front().second);
      continue;
    }
    text += name + ":\n";
    std::istringstream lines(yaml_text(inner));
    for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
  }
  return text;
}

std::string json_text_of(const std::vector<Setting>& settings) {
  return fmt::format("{{\n  {}\n}}\n", fmt::join(json_entries(settings), ",\n  "));
}

void ConfigurationExport::set_steps(const std::string& path) {
  if (const auto steps = steps_of_run(request_))
    set(path, std::to_string(*steps));
  else
    left_out_.add(path);
}

void ConfigurationExport::refuse(const std::string& what, const std::string& help) const {
  throw InputError(fmt::format("{}: {}", request_.scenario, what), help);
}

Recompute ConfigurationExport::recompute_of_blocks() {
  const Recompute mode = recompute_of(plan_, job_);
  const RecomputeScope& scope = scenario_.recompute_scope;
  cannot_if(mode == Recompute::Selective, "selective recompute: nothing is recomputed");
  cannot_if(mode == Recompute::Full && (scope.every > 1 || scope.first > 0 || scope.chunk > 1),
            "recompute of some of the layers, or of several together: each is recomputed by itself");
  return mode;
}

std::string number_text(double value) { return fmt::format("{}", value); }

std::string yaml_number(double value) {
  std::string text = number_text(value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

}  // namespace panpipe::jobs
