// panpipe sweep: what-if studies over any keys of a scenario.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <thread>

#include "app/evidence/read_evidence.hpp"
#include "app/sweep.hpp"
#include "base/error.hpp"
#include "base/text/quantity_text.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/stop_on_signal.hpp"
#include "cli/verbs.hpp"
#include "planner/planner.hpp"
#include "present/result/heading.hpp"
#include "study/cell_answer/cell_answer.hpp"
#include "study/sweep/sweep.hpp"

namespace panpipe::cli {
namespace {

using study::SweepCell;

constexpr std::size_t kMostTried = 40;  // cells that are read for the heading of all

struct SweepSettings {
  app::SweepRequest request;
  std::vector<std::string> evidence;
  std::string output, shard, method = "auto";
  std::vector<std::string> over, merge;
  bool plan_each = false, json = false, csv = false;
  int threads = 0;
};

void show_progress(const study::SweepProgress& progress) {
  std::string line = fmt::format("\r\x1b[K{} of {} cells", progress.done, progress.cells);
  if (progress.too_large > 0) line += fmt::format(", {} too large", progress.too_large);
  if (progress.without_answer > 0) line += fmt::format(", {} without an answer", progress.without_answer);
  if (progress.best > 0) line += ", best " + to_text(Duration(progress.best));
  if (progress.done == progress.cells) line += "\n";
  print_note(line);
}

// "I/N", counted from 1.
void read_shard(const std::string& text, study::SweepOptions& options) {
  const auto slash = std::min(text.find('/'), text.size());
  const long long index = parse_integer(text.substr(0, slash)).value.value_or(0);
  const long long count = parse_integer(text.substr(std::min(slash + 1, text.size()))).value.value_or(0);
  if (index < 1 || index > count)
    throw InputError(fmt::format("--shard {}: a shard is I/N with I from 1 to N, as in --shard 2/8", text));
  options.shard = static_cast<std::size_t>(index);
  options.shards = static_cast<std::size_t>(count);
}

void present(const SweepSettings& settings, const study::SweepGrid& grid, const std::vector<study::SweepCell>& cells,
             const std::string& shard) {
  if (settings.json) return print(study::to_json(grid, cells, shard));
  if (settings.csv) return print(study::to_csv(grid, cells));
  show(study::to_table(grid, cells));
}

// Cells without an answer are answers of the sweep, unless there is nothing else, or they are bugs.
ExitCode verdict(const std::vector<study::SweepCell>& cells) {
  bool answered = false, refused = false, cannot = false;
  for (const study::SweepCell& cell : cells) {
    if (cell.status == study::CellStatus::Bug) return ExitCode::Bug;
    answered = answered || cell.has_answer();
    refused = refused || cell.status == study::CellStatus::Refused || cell.status == study::CellStatus::NoAnswer;
    cannot = cannot || cell.status == study::CellStatus::NoMachine;
  }
  if (answered || cells.empty()) return ExitCode::Done;
  return cannot && !refused ? ExitCode::MachineCannot : ExitCode::CheckFailed;
}

// Cells are numbers: the currency of their costs stands above them.
std::string price_line(const Scenario& scenario, const std::vector<std::string>& swept) {
  if (!scenario.run || scenario.run->prices.empty()) return "";
  for (const std::string& key : swept)
    if (key == "run" || key == "run.price") return "costs in the currency of each cell's price\n";
  return fmt::format("costs in {}, at {} a GPU hour\n", scenario.run->currency, scenario.run->price_origin);
}

// The heading of the first scenario that `load` can read; empty where it can none, or where the files of shards are elsewhere.
std::string heading_of(const study::SweepGrid& grid, const std::function<Scenario(const std::vector<std::string>&)>& load) {
  std::vector<std::string> keys;
  for (const study::SweepAxis& axis : grid.axes) keys.push_back(axis.key);
  for (std::size_t cell = 0; cell < std::min(grid.size(), kMostTried); ++cell) try {
      const Scenario scenario = load(grid.overrides(cell));
      return present::heading_of_sweep(scenario, make_workload(scenario), keys, !grid.method.empty()) +
             price_line(scenario, keys);
    } catch (const InputError&) {
    } catch (const NoAnswer&) {
    }
  return "";
}

int merge(const SweepSettings& settings) {
  const study::Merged merged = study::merge_sweeps(settings.merge, settings.output, [](const study::SweepGrid& grid) {
    return heading_of(grid, [&](const auto& overrides) { return load_scenario(grid.scenario, overrides); });
  });
  present(settings, merged.grid, merged.cells, "");
  const std::size_t missing = merged.grid.size() - merged.cells.size();
  if (missing > 0) {
    print_note(fmt::format("panpipe: {} of {} cells are in none of the folders\n", missing, merged.grid.size()));
    return static_cast<int>(ExitCode::CheckFailed);
  }
  return static_cast<int>(verdict(merged.cells));
}

int sweep(const SweepSettings& settings) {
  study::SweepGrid grid = app::grid_of(settings.request);
  study::SweepOptions options;
  options.folder = settings.output;
  options.workers = settings.threads > 0 ? settings.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (!settings.shard.empty()) read_shard(settings.shard, options);
  options.stop = &stop_requested();
  if (progress_wanted()) options.progress = show_progress;
  options.load = [&](const auto& overrides) { study::load_cell(settings.request.scenario, overrides); };
  app::EvidenceOfCells evidence;
  const auto load = [&](const auto& overrides) { return evidence.with(load_scenario(grid.scenario, overrides)); };
  options.answer = [&](const auto& overrides) { return study::answer_of_scenario(grid, load(overrides)); };
  grid.heading = heading_of(grid, load);  // evidence is read here, before there are worker processes
  const StopOnSignal stop;
  const study::SweepRun run = run_sweep(grid, options);
  if (!run.complete) {
    print_note(fmt::format(
        "\npanpipe: stopped after {} cells; {}\n", run.cells.size(),
        settings.output.empty() ? "nothing was kept (with -o DIR it would be)" : "the same command goes on from there"));
    return static_cast<int>(ExitCode::CheckFailed);
  }
  present(settings, grid, run.cells, settings.shard);
  if (!settings.output.empty())
    print_note(fmt::format("written to {0}: sweep.html, sweep.csv, sweep.json, cells.jsonl{1}\n", settings.output,
                           run.kept > 0 ? fmt::format(" ({} cells were done before)", run.kept) : std::string()));
  return static_cast<int>(verdict(run.cells));
}

}  // namespace

void add_sweep_verb(CLI::App& sub, std::function<int()>& run) {
  auto settings = std::make_shared<SweepSettings>();
  sub.add_option("SCENARIO", settings->request.scenario, "scenario file (YAML)");
  add_repeatable(sub, "--over", settings->over,
                 "vary a key: --over parallel.pipeline=2,4,8 (repeatable; the last one varies fastest)", "KEY=V,V");
  add_repeatable(sub, "--set", settings->request.overrides, "set a key in all cells: --set batch.micro=4 (repeatable)",
                 "KEY=VALUE");
  add_repeatable(sub, "--evidence", settings->evidence,
                 "a measurement of this machine and trainer, which narrows the intervals: a log, a table of runs (repeatable)",
                 "FILE");
  add_typed(sub, "--engine", settings->request.engine, "estimate (idle links) or simulate (shared links)", "NAME");
  sub.add_flag("--plan-each", settings->plan_each, "search the best plan for each cell");
  add_typed(sub, "--method", settings->method, "method of --plan-each: auto (default), pfeife or piper", "NAME");
  add_typed(sub, "-o", settings->output, "keep finished cells in this folder, where the same call goes on, and write sweep.html",
            "DIR");
  sub.add_option("--threads", settings->threads, "number of cells at a time (default: all cores)")->check(CLI::Range(1, 4096));
  sub.add_flag("--json", settings->json, "print the document instead of the table");
  sub.add_flag("--csv", settings->csv, "print the cells as CSV");
  add_typed(sub, "--shard", settings->shard, "do the I-th of N parts: for job arrays", "I/N");
  add_typed(sub, "--merge", settings->merge, "put the folders of shards together", "DIR...");
  run = [settings] {
    if (settings->plan_each) settings->request.method = settings->method;
    for (const std::string& axis : settings->over) settings->request.axes.push_back(study::parse_axis(axis));
    planner::method_named(settings->method);
    add_evidence(settings->evidence, settings->request.overrides);
    app::grid_of(settings->request);
    if (settings->json && settings->csv) throw InputError("panpipe sweep: give --json or --csv, not both");
    if (!settings->merge.empty()) {
      if (!settings->request.scenario.empty() || !settings->over.empty())
        throw InputError("panpipe sweep: --merge takes folders of shards alone: they know their scenario and keys");
      return merge(*settings);
    }
    if (settings->request.scenario.empty()) throw InputError("panpipe sweep: SCENARIO is missing", "see panpipe sweep --help");
    return sweep(*settings);
  };
}

}  // namespace panpipe::cli
