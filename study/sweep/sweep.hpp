// What-if studies: every cell of a grid predicted, on all cores, kept as it is done, shown as table and page. The engine is the
// caller's: this library knows no simulator.
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

namespace panpipe::planner {

// What an engine says of a cell. Everything else about it (refusals, files) is gathered here.
struct CellAnswer {
  std::vector<std::pair<std::string, double>> metrics;
  bool fits = true;
  std::string reason;  // when it does not fit: by how much
  std::string plan;    // when the planner was asked
};

struct SweepProgress {
  std::size_t cells = 0, done = 0;  // of this shard
  std::size_t too_large = 0, without_answer = 0;
  double best = 0;  // shortest step that fits; 0 = none yet
};

struct SweepOptions {
  std::string folder;  // empty: nothing is kept
  int workers = 1;
  std::size_t shard = 1, shards = 1;  // this call does the cells with index % shards == shard - 1
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const SweepProgress&)> progress;
  // Reads the scenario with these overrides and throws InputError when it cannot.
  std::function<void(const std::vector<std::string>& overrides)> load;
  // In a process of its own; throws the four kinds of failure.
  std::function<CellAnswer(const std::vector<std::string>& overrides)> answer;
};

struct SweepRun {
  std::vector<SweepCell> cells;  // those that are done, in the grid's order
  std::size_t kept = 0;          // of them, done by an earlier call
  bool complete = true;          // false: stopped; the same call goes on where this one ended
};

// InputError where the grid cannot be meant. A value that is refused is a cell's answer; a key that does not exist, or a scenario
// that cannot be read at all, is a mistake of the call. run_sweep() begins with it.
void check_sweep(const SweepGrid& grid, const SweepOptions& options);

// One cell, here and now: for callers that have workers of their own. `hashes` keeps those of files from one cell to the next,
// for as long as no file can change.
using FileHashes = std::map<std::string, std::string>;
SweepCell answer_cell(const SweepGrid& grid, std::size_t index, const SweepOptions& options, FileHashes& hashes);

// Throws InputError when the grid cannot be meant: an unknown key, a scenario that cannot be read whatever the values.
SweepRun run_sweep(const SweepGrid& grid, const SweepOptions& options);

// The cells of several folders as one sweep, written into `folder`, under the heading that the caller makes for the grid.
// InputError: different grids, input files that changed between the shards. Cells that are in none of them are missing in the
// answer.
struct Merged {
  SweepGrid grid;
  std::vector<SweepCell> cells;
};
Merged merge_sweeps(const std::vector<std::string>& folders, const std::string& folder,
                    const std::function<std::string(const SweepGrid&)>& heading = {});

// What cells are compared by: the step time, or the time per sample where they differ in samples per step.
struct SweepMeasure {
  bool per_sample = false;
  const char* name() const { return per_sample ? "time per sample" : "step time"; }
  std::optional<double> of(const SweepCell& cell) const;  // seconds; nothing without an answer
};
SweepMeasure measure_for(const std::vector<SweepCell>& cells);

// Indices into `cells`: of those that fit, no other one takes both less memory and less time (by their measure).
std::vector<std::size_t> pareto_cells(const std::vector<SweepCell>& cells);

// The cells as readers want them, as indices into `cells`: those that fit from the best on, those that are too large from the
// fastest on, those without an answer in the grid's order. The documents (CSV, JSON) keep the grid's order.
std::vector<std::size_t> ranking(const std::vector<SweepCell>& cells);
// The answer in one line: "best: schedule=zb-h1, ...: 131.7 ms a sample, 8.9 GiB; 2.1 % less than the next".
std::string conclusion(const SweepGrid& grid, const std::vector<SweepCell>& cells);

// What is said of each cell: "best", "best within 8.9 GiB" (no other that needs no more memory is as fast), "does not fit: ...",
// "refused (1)". The reasons of cells without an answer stand once each, below the table: the first is "(1) refused: ...".
struct SweepVerdicts {
  std::vector<std::string> of_cell;  // as many as cells
  std::vector<std::string> reasons;
};
SweepVerdicts verdicts(const std::vector<SweepCell>& cells);

// `shard`: "2/8", empty for all cells.
std::string to_json(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard);  // panpipe-sweep/1
std::string to_csv(const SweepGrid& grid, const std::vector<SweepCell>& cells);
std::string to_table(const SweepGrid& grid, const std::vector<SweepCell>& cells);  // for a terminal
std::string to_page(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard);

}  // namespace panpipe::planner
