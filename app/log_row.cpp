// A logged run as a row of a table of runs.
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <filesystem>

#include "app/import_log.hpp"
#include "base/option_fault.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/workload/language_model.hpp"
#include "jobs/trainer_data.hpp"
#include "validation/runs/run_choices.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::app {
namespace {

constexpr double kGib = 1 << 30;

class RowWriter {
 public:
  RowWriter(const LogAnswer& answer, std::string table)
      : answer_(answer), table_(std::move(table)), scenario_(answer.planned->experiment.scenario), plan_(answer.planned->plan) {}

  validation::RunRow row() {
    name();
    machine();
    model();
    division();
    choices();
    measured();
    return std::move(row_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw option_fault("row", what, "the answer without a row has the measured step");
  }

  // What no column states is in the scenario, which the row names.
  void name_scenario(const std::string& what) {
    if (answer_.scenario_file.empty())
      throw option_fault("row", what, "with -o SCENARIO beside the table, or --job, the row names the scenario");
    namespace fs = std::filesystem;
    const fs::path folder = fs::absolute(table_.empty() ? answer_.scenario_file : table_).parent_path();
    const fs::path file = fs::absolute(answer_.scenario_file).lexically_normal().lexically_relative(folder.lexically_normal());
    if (file.empty() || *file.begin() == "..")
      throw option_fault("row", what, "the scenario must lie in the folder of the table, or below, for the row to name it");
    row_.scenario = file.generic_string();
  }

  // The log's name, with what cannot stand in an id as '-', and the number of the run where there are several.
  void name() {
    const std::filesystem::path file(answer_.log.file);
    row_.source = file.filename().string();
    for (const char c : file.stem().string())
      row_.id += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ? c : '-';
    if (answer_.log.runs > 1) row_.id += fmt::format("-run{}", answer_.log.run_number);
    row_.where = fmt::format("steps {} to {}", answer_.log.run.first_step, answer_.log.run.last_step);
    row_.confidence = "measured";
  }

  void machine() {
    const Cluster& cluster = scenario_.cluster;
    const DeviceType& type = cluster.types.front();
    if (cluster.types.size() > 1 || validation::device_of(type.name) == nullptr)
      refuse(fmt::format("a table of runs names one GPU with a data sheet, and the cluster has {}", type.name));
    row_.gpu = type.name;
    row_.gpus = static_cast<int>(plan_.devices.size());
    row_.gpus_per_node = std::min(cluster.node.front().devices, *row_.gpus);
    if (*row_.gpus > *row_.gpus_per_node) row_.fabric = fmt::format("{:.0f} Gb/s", cluster.node.front().network.base() * 8 / 1e9);
  }

  void model() {
    const auto known = language_model_of(scenario_.workload);
    if (!known) return name_scenario("no columns state the model: it is no language model");
    const ModelDimensions& d = known->dimensions;
    if (d.traits.experts.count > 0) name_scenario("no columns state the experts of a model");
    row_.layers = d.layers, row_.hidden = d.hidden, row_.heads = d.heads, row_.ffn = d.ffn;
    row_.seq = d.sequence, row_.vocab = d.vocabulary;
    if (d.kv_heads > 0 && d.kv_heads != d.heads) row_.kv_heads = d.kv_heads;
    if (d.head_size > 0 && d.head_size * d.heads != d.hidden) row_.head_size = d.head_size;
    row_.tied_embedding = d.tied_embedding ? "true" : "false";
    row_.framework_choices["dropout"] = d.dropout > 0 ? "true" : "false";
  }

  void division() {
    row_.tp = plan_.tensor, row_.pp = plan_.pipeline, row_.dp = plan_.data, row_.zero = plan_.zero;
    if (plan_.context > 1) row_.context_size = plan_.context;
    if (plan_.expert > 1) row_.expert_size = plan_.expert;
    row_.seq_parallel = plan_.sequence_parallel;
    row_.micro_batch = plan_.micro;
    row_.global_batch = plan_.micro * plan_.schedule.microbatches * plan_.data;
    row_.schedule = plan_.pipeline == 1 ? "none" : scenario_.schedule.name;
    if (plan_.virtual_stages > 1) row_.virtual_stages = plan_.virtual_stages;
    row_.precision = name_of(scenario_.precision);
    row_.optimizer = scenario_.optimizer.name;
  }

  // As the scenario has them.
  void choices() {
    row_.framework = scenario_.framework.name;
    const Node* document = scenario_.document.get();
    const Node* parallel = document == nullptr ? nullptr : document->find("parallel");
    const Node* exchange = parallel == nullptr ? nullptr : parallel->find("context_exchange");
    if (exchange != nullptr) row_.context_exchange = exchange->text;
    const Node* recompute = document == nullptr ? nullptr : document->find("recompute");
    row_.recompute = recompute == nullptr ? std::string(name_of(scenario_.recompute)) : jobs::flow_text(*recompute);
    const Node* framework = document == nullptr ? nullptr : document->find("framework");
    if (framework == nullptr || framework->kind != NodeKind::Map) return;
    for (const std::string& key : validation::framework_columns())
      if (const Node* choice = framework->find(key)) row_.framework_choices[key] = choice->text;
  }

  void measured() {
    const jobs::LoggedRun& run = answer_.log.run;
    row_.step_s = run.measured.median_s;
    row_.step_kind = "step";
    row_.note = fmt::format("{}: median of {} logged steps", answer_.log.title, run.measured.steps);
    if (run.peak_kind == jobs::PeakKind::None) return;
    row_.peak_gib = run.peak_bytes / kGib;
    row_.peak_kind = name_of(run.peak_kind);
  }

  const LogAnswer& answer_;
  const std::string table_;
  const Scenario& scenario_;
  const Plan& plan_;
  validation::RunRow row_;
};

}  // namespace

validation::RunRow row_of(const LogAnswer& answer, const std::string& table) {
  if (!answer.planned)
    throw option_fault("row", answer.open.empty() ? "the job is not known" : answer.open.front().reason,
                       answer.open.empty() || answer.open.front().option.empty()
                           ? ""
                           : fmt::format("'{}' states it", answer.open.front().option));
  return RowWriter(answer, table).row();
}

}  // namespace panpipe::app
