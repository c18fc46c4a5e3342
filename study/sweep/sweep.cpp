#include "study/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/files_read.hpp"
#include "base/input/error_with_caret.hpp"
#include "study/sweep/folder.hpp"
#include "study/sweep/workers.hpp"

namespace panpipe::study {
namespace {

constexpr std::size_t kSamples = 40;  // cells whose scenario is read before work starts

bool is_unknown_key(const Diagnostic& diagnostic) {
  return diagnostic.code == code::kUnknownKey && !diagnostic.override_text.empty();
}

// As faults of --over, where they are: the reader knows overrides as --set.
InputError renamed(const InputError& error, const SweepGrid& grid) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& diagnostic : diagnostics)
    for (const SweepAxis& axis : grid.axes)
      if (diagnostic.override_text.starts_with(axis.key + "=")) diagnostic.place = "--over " + diagnostic.override_text;
  return InputError(std::move(diagnostics));
}

std::optional<InputError> fault_of(const SweepOptions& options, const std::vector<std::string>& overrides) {
  try {
    options.load(overrides);
    return std::nullopt;
  } catch (const InputError& error) {
    return error;
  }
}

void check_call(const SweepGrid& grid, const SweepOptions& options) {
  const std::size_t samples = std::min(kSamples, grid.size());
  std::optional<InputError> first;
  bool unknown = true;
  for (std::size_t i = 0; i < samples; ++i) {
    auto fault = fault_of(options, grid.overrides(i * grid.size() / samples));
    if (!fault) return;
    const auto& faults = fault->diagnostics();
    unknown = unknown && std::any_of(faults.begin(), faults.end(), is_unknown_key);
    if (!first) first = std::move(fault);
  }
  if (unknown || fault_of(options, grid.sets)) throw renamed(*first, grid);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// "a.yaml:4:3: error: x" without the word that every refusal shares.
std::string reason_of(const InputError& error) {
  const Diagnostic& first = error.diagnostics().front();
  std::string reason = first.message;
  if (error.diagnostics().size() > 1) reason += fmt::format(" (and {} more)", error.diagnostics().size() - 1);
  return reason;
}

}  // namespace

SweepCell answer_cell(const SweepGrid& grid, std::size_t index, const SweepOptions& options, FileHashes& hashes) {
  SweepCell cell;
  cell.index = index;
  cell.key = grid.key(index);
  const FilesRead files;
  const auto fail = [&](CellStatus status, const std::string& reason) {
    cell.status = status;
    cell.reason = reason;
  };
  try {
    CellAnswer answer = options.answer(grid.overrides(index));
    cell.status = answer.fits ? CellStatus::Fits : CellStatus::TooLarge;
    cell.reason = std::move(answer.reason);
    cell.metrics = std::move(answer.metrics);
    cell.plan = std::move(answer.plan);
    cell.evidence = std::move(answer.evidence);
  } catch (const InputError& error) {
    fail(CellStatus::Refused, reason_of(error));
  } catch (const NoAnswer& error) {
    fail(CellStatus::NoAnswer, first_line(error.what()));
  } catch (const MachineError& error) {
    fail(CellStatus::NoMachine, first_line(error.what()));
  } catch (const std::bad_alloc&) {
    fail(CellStatus::NoMachine, "not enough memory");
  } catch (const std::exception& error) {
    fail(CellStatus::Bug, first_line(error.what()));
  }
  for (const std::string& path : files.paths()) {
    auto hash = hashes.find(path);
    if (hash == hashes.end()) hash = hashes.emplace(path, sha256_of_file(path)).first;
    cell.inputs.emplace_back(path, hash->second);
  }
  return cell;
}

void check_sweep(const SweepGrid& grid, const SweepOptions& options) {
  check_grid(grid);
  check_call(grid, options);
}

namespace {

class Running {
 public:
  Running(const SweepGrid& grid, const SweepOptions& options) : grid_(grid), options_(options) {
    if (!options.folder.empty()) folder_ = std::make_unique<SweepFolder>(options.folder);
  }

  SweepRun run() {
    if (folder_) cells_ = folder_->begin(grid_);
    std::vector<std::size_t> jobs;
    std::map<std::size_t, SweepCell> of_shard;
    for (std::size_t i = options_.shard - 1; i < grid_.size(); i += options_.shards) {
      ++progress_.cells;
      const auto kept = cells_.find(i);
      if (kept == cells_.end()) {
        jobs.push_back(i);
      } else {
        count(kept->second);
        of_shard.insert(*kept);
      }
    }
    cells_ = std::move(of_shard);
    SweepRun result;
    result.kept = cells_.size();
    show();
    result.complete = run_jobs(jobs, workers());
    for (auto& [index, cell] : cells_) result.cells.push_back(std::move(cell));
    if (folder_ && result.complete) folder_->finish(grid_, result.cells, shard_name());
    return result;
  }

 private:
  Workers workers() {
    Workers workers;
    workers.count = options_.workers;
    workers.stop = options_.stop;
    workers.work = [this](std::size_t job) { return to_line(answer_cell(grid_, job, options_, hashes_)); };
    workers.done = [this](std::size_t job, const std::string& answer) {
      auto cell = parse_line(answer);
      PANPIPE_CHECK(cell && cell->index == job, "a worker answers with the cell it was given");
      take(std::move(*cell));
    };
    workers.died = [this](std::size_t job, const std::string& how) {
      SweepCell cell;
      cell.index = job;
      cell.key = grid_.key(job);
      cell.reason = "the process that worked on it ended with " + how;
      take(std::move(cell));
    };
    return workers;
  }

  void take(SweepCell cell) {
    if (folder_) folder_->append(cell);
    count(cell);
    show();
    const std::size_t index = cell.index;
    cells_.insert_or_assign(index, std::move(cell));
  }

  void count(const SweepCell& cell) {
    ++progress_.done;
    if (cell.status == CellStatus::TooLarge) ++progress_.too_large;
    if (!cell.has_answer()) ++progress_.without_answer;
    const auto step = cell.metric("step_time_s");
    if (cell.status == CellStatus::Fits && step && (progress_.best == 0 || *step < progress_.best)) progress_.best = *step;
  }

  void show() const {
    if (options_.progress) options_.progress(progress_);
  }

  std::string shard_name() const {
    return options_.shards == 1 ? std::string() : fmt::format("{}/{}", options_.shard, options_.shards);
  }

  const SweepGrid& grid_;
  const SweepOptions& options_;
  std::unique_ptr<SweepFolder> folder_;
  std::map<std::size_t, SweepCell> cells_;
  SweepProgress progress_;
  FileHashes hashes_;  // of files that this worker has read
};

}  // namespace

SweepRun run_sweep(const SweepGrid& grid, const SweepOptions& options) {
  check_sweep(grid, options);
  return Running(grid, options).run();
}

Merged merge_sweeps(const std::vector<std::string>& folders, const std::string& folder,
                    const std::function<std::string(const SweepGrid&)>& heading) {
  Merged merged;
  std::map<std::size_t, SweepCell> cells;
  std::map<std::string, std::pair<std::string, std::string>> inputs;  // file -> its hash, and the folder that states it
  for (const std::string& from : folders) {
    SweepFound found = read_sweep(from);
    if (from == folders.front()) merged.grid = found.grid;
    if (to_json(found.grid) != to_json(merged.grid))
      throw InputError(
          {diagnostic_of_file(from, "this is another sweep than " + folders.front(),
                              "shards of one sweep have the same scenario, keys, values, engine and version of panpipe")});
    for (auto& [index, cell] : found.cells) {
      for (const auto& [path, hash] : cell.inputs) {
        const auto known = inputs.emplace(path, std::make_pair(hash, from)).first;
        if (known->second.first != hash)
          throw InputError({diagnostic_of_file(
              from, fmt::format("{} was another file when the cells of {} were made", path, known->second.second),
              "give the command of the older shard again")});
      }
      cells.insert_or_assign(index, std::move(cell));
    }
  }
  for (auto& [index, cell] : cells) merged.cells.push_back(std::move(cell));
  if (heading) merged.grid.heading = heading(merged.grid);
  if (!folder.empty()) SweepFolder(folder).finish(merged.grid, merged.cells, "");
  return merged;
}

}  // namespace panpipe::study
