// panpipe estimate: a step on idle links.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "app/memory_snapshot.hpp"
#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/largest.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/verbs.hpp"
#include "present/result/memory_snapshot.hpp"

namespace panpipe::cli {
namespace {

constexpr const char* kSnapshotAdvice = "choose another file with --memory-snapshot";

struct EstimateOptions : PredictOptions {
  std::string snapshot;
  std::optional<int> rank;
  app::LargestRequest largest;
};

void write_snapshot(const EstimateOptions& options, const AllocationHistory& history) {
  write_file(options.snapshot, present::to_memory_snapshot(history), kSnapshotAdvice);
  print_note(
      fmt::format("written to {}: the allocator of rank {} over two steps, {} events, sizes {:.3f} of the replay's, as the "
                  "answer's are; open it "
                  "at pytorch.org/memory_viz\n",
                  options.snapshot, history.rank, history.events.size(), history.scale));
}

int run_largest_of(const EstimateOptions& options) {
  if (!options.output.empty() || options.timeline || options.all_spans || !options.snapshot.empty())
    throw InputError("-o, --timeline, --all-spans and --memory-snapshot are of one step, and --largest asks for a size",
                     "estimate again with the size that is found: --set batch.micro=N", code::kConflict);
  app::LargestSource source;
  source.name = options.scenario;
  source.load = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = options.all_overrides();
    all.insert(all.end(), more.begin(), more.end());
    return load_scenario(options.scenario, all, options.plan);
  };
  source.plan_file = options.plan;
  return run_largest(options.largest, source, options.json);
}

int run_estimate(const EstimateOptions& options) {
  check_largest_options(options.largest);
  if (options.rank && options.snapshot.empty()) throw InputError("--snapshot-rank goes with --memory-snapshot FILE");
  if (!options.largest.of.empty()) return run_largest_of(options);
  const auto begin = app::PredictedStep::Clock::now();
  const auto planned = planned_scenario(options);
  if (!options.snapshot.empty()) check_outputs({options.snapshot}, kSnapshotAdvice);
  const app::PredictedStep step(planned, estimated_step(planned->graph, planned->experiment.scenario, planned->plan), begin);
  std::optional<AllocationHistory> history;
  if (!options.snapshot.empty()) history = app::allocation_history(step, options.rank);
  present(step, options, "");
  if (history) write_snapshot(options, *history);
  return 0;
}

}  // namespace

void add_estimate_verb(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<EstimateOptions>();
  add_predict_options(sub, *options);
  add_typed(sub, "--memory-snapshot", options->snapshot,
            "write what the replayed allocator does as a memory snapshot of PyTorch, for pytorch.org/memory_viz", "FILE");
  add_number(sub, "--snapshot-rank", options->rank, "pipeline rank of the snapshot (default: that of the fullest device)", 0,
             65535);
  add_largest_options(sub, options->largest);
  run = [options] { return run_estimate(*options); };
}

}  // namespace panpipe::cli
