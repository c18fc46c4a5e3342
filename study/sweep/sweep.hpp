// What-if studies: predicts every cell of a grid on all cores, stores each when it is done, and shows the results as table and
// page. The caller supplies the engine; this library does not depend on a simulator.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "study/sweep/cell.hpp"
#include "study/sweep/grid.hpp"

namespace panpipe::study {

// The engine's answer for a cell. Everything else (refusals, files) is collected here.
struct CellAnswer {
  std::vector<std::pair<std::string, double>> metrics;
  bool fits = true;
  std::string reason;  // if it does not fit, the excess; if it only just does, how little is left
  std::string plan;    // if a planner was used
  std::vector<std::string> evidence = {};
};

struct SweepProgress {
  std::size_t cells = 0, done = 0;  // in this shard
  std::size_t too_large = 0, without_answer = 0;
  double best = 0;  // shortest step that fits, seconds; 0 = none yet
};

struct SweepOptions {
  std::string folder;  // empty: nothing is stored
  int workers = 1;
  std::size_t shard = 1, shards = 1;  // this call runs the cells with index % shards == shard - 1
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const SweepProgress&)> progress;
  // Reads the scenario with these overrides. Throws InputError if that fails.
  std::function<void(const std::vector<std::string>& overrides)> load;
  // Answers a cell; runs in its own process and throws the four kinds of failure.
  std::function<CellAnswer(const std::vector<std::string>& overrides)> answer;
};

struct SweepRun {
  std::vector<SweepCell> cells;  // the finished ones, in the grid's order
  std::size_t kept = 0;          // number of these that an earlier call finished
  bool complete = true;          // false: stopped; repeating the call continues
};

// Throws InputError if the grid is a mistake of the caller: an unknown key, or a scenario that is unreadable with any values. A
// single refused value is the answer of its cell instead. run_sweep() calls this first.
void check_sweep(const SweepGrid& grid, const SweepOptions& options);

// Answers one cell in this process, for callers with their own workers. `hashes` caches hashes of files between cells, valid as
// long as no file changes.
using FileHashes = std::map<std::string, std::string>;
SweepCell answer_cell(const SweepGrid& grid, std::size_t index, const SweepOptions& options, FileHashes& hashes);

// Throws InputError for an unknown key, or a scenario that is unreadable with any values.
SweepRun run_sweep(const SweepGrid& grid, const SweepOptions& options);

// Merges the cells of several folders into one sweep, written to `folder` under the caller's heading for the grid. Throws
// InputError for different grids, or input files that changed between the shards. Cells that no folder contains are missing in
// the result.
struct Merged {
  SweepGrid grid;
  std::vector<SweepCell> cells;
};
Merged merge_sweeps(const std::vector<std::string>& folders, const std::string& folder,
                    const std::function<std::string(const SweepGrid&)>& heading = {});

// The figure by which cells are compared: the step time, or the time per sample if samples per step differ.
struct SweepMeasure {
  bool per_sample = false;
  const char* name() const { return per_sample ? "time per sample" : "step time"; }
  std::optional<double> of(const SweepCell& cell) const;  // seconds; nullopt without an answer
};
SweepMeasure measure_for(const std::vector<SweepCell>& cells);

// Indices into `cells` in reading order, for each environment of the grid (SweepGrid::environment): those that fit from the best,
// those too large from the fastest, those without an answer in the grid's order. The documents (CSV, JSON) keep the grid's order.
std::vector<std::vector<std::size_t>> rankings(const SweepGrid& grid, const std::vector<SweepCell>& cells);

// Indices into `cells`: those that fit and that no other fitting cell of their environment beats in both memory and time.
std::vector<std::size_t> pareto_cells(const SweepGrid& grid, const std::vector<SweepCell>& cells);

// Whether evidence was given, so that medians are not the predicted steps.
bool with_evidence(const std::vector<SweepCell>& cells);
// What the pieces of evidence state and which are left out, as they count for the first cell with an answer; empty without.
std::string evidence_heading(const SweepGrid& grid, const std::vector<SweepCell>& cells);

// "best: schedule=zb-h1, ...: 131.7 ms a sample, 8.9 GiB; 2.1 % less than the next"; of several environments a line for each,
// which begins with "best for cluster=...: ".
std::string conclusion(const SweepGrid& grid, const std::vector<SweepCell>& cells);

// A verdict per cell: "best" of its environment, "best within 8.9 GiB" (no cell with less or equal memory is as fast), "does not
// fit: ...", "refused (1)". The reasons of cells without an answer are listed once each below the table: the first is "(1)
// refused: ...".
struct SweepVerdicts {
  std::vector<std::string> of_cell;  // as many as cells
  std::vector<std::string> reasons;
};
SweepVerdicts verdicts(const SweepGrid& grid, const std::vector<SweepCell>& cells);

// `shard`: "2/8"; empty for all cells.
std::string to_json(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard);  // panpipe-sweep/1
std::string to_csv(const SweepGrid& grid, const std::vector<SweepCell>& cells);
std::string to_table(const SweepGrid& grid, const std::vector<SweepCell>& cells);  // for a terminal
std::string to_page(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard);

}  // namespace panpipe::study
