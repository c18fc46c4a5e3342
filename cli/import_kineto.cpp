#include "cli/import_kineto.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/files/files_write.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "jobs/kineto/trace_collectives.hpp"
#include "jobs/kineto/trace_compare.hpp"

namespace panpipe::cli {
namespace {

struct KinetoOptions : BesideOptions {
  std::string file, output;
  int steps = 0, per_node = 8;
  bool json = false;
};

jobs::PredictedGroups predict_trace(const KinetoOptions& options, const jobs::KinetoTrace& trace) {
  const Experiment experiment(options.load());
  const Plan plan = experiment.plan(options.plan);
  const int device = options.rank.value_or(trace.rank >= 0 ? trace.rank : 0);
  return jobs::predicted_groups(experiment, plan, predict(experiment, plan), device);
}

int import_kineto(const KinetoOptions& options) {
  const bool beside = options.wanted();
  const jobs::KinetoTrace trace = jobs::read_kineto_trace(options.file, options.per_node);
  const jobs::TraceSummary summary = jobs::summary_of(trace, options.steps);
  std::optional<jobs::PredictedGroups> predicted;
  if (beside) predicted = predict_trace(options, trace);
  const jobs::PredictedGroups* groups = predicted ? &*predicted : nullptr;
  options.json ? print(jobs::trace_json(trace, summary, groups) + "\n") : show(jobs::trace_table(trace, summary, groups));
  if (options.output.empty()) return 0;
  const CollectiveTables tables = jobs::collectives_of(trace, std::filesystem::path(options.file).filename().string());
  write_file(options.output, to_yaml(tables, "Written by `panpipe import kineto`."), kAdvice);
  print_note(fmt::format("written to {0}: {1} table{2} of measured collectives; use it with collectives: {0} in a cluster file\n",
                         options.output, tables.tables.size(), tables.tables.size() == 1 ? "" : "s"));
  return 0;
}

}  // namespace

void add_kineto_import(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<KinetoOptions>();
  CLI::App* kineto = sub.add_subcommand("kineto", "sort the kernels of a trace of PyTorch's profiler, beside a prediction");
  kineto->add_option("FILE", options->file, "trace of torch.profiler (.json or .json.gz); - for standard input")->required();
  add_beside_options(*kineto, *options, "rank of the trace (default: as it says, else 0)");
  add_number(*kineto, "--steps", options->steps, "steps in the trace (default: its ProfilerStep marks, else 1)", 1, 1 << 20);
  add_number(*kineto, "--per-node", options->per_node, "GPUs of a node, by which groups lie on nodes (default 8)", 1, 1 << 10);
  kineto->add_flag("--json", options->json, "print a JSON document instead of the table");
  add_typed(*kineto, "-o", options->output, "table of measured collectives to write, the least time of each size", "TABLE");
  kineto->callback([options, &run] { run = [options] { return import_kineto(*options); }; });
}

}  // namespace panpipe::cli
