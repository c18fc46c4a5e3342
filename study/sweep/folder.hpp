// The folder of a sweep. grid.json holds the grid, cells.jsonl a line per finished cell; sweep.json, sweep.csv and sweep.html are
// written at the end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "study/sweep/cell.hpp"
#include "study/sweep/grid.hpp"

namespace panpipe::study {

class SweepFolder {
 public:
  // Creates the folder and locks it. Throws MachineError if it cannot be created, or if another sweep writes to it.
  explicit SweepFolder(std::string path);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

  // Returns the cells of this grid that an earlier call finished and that are still valid: answers and refusals whose input files
  // have not changed. Other lines are dropped. Faults of the input and of the machine are tried again.
  std::map<std::size_t, SweepCell> begin(const SweepGrid& grid);
  void append(const SweepCell& cell);  // one write, so a line is written whole or not at all
  // Writes all cells in the grid's order, and the documents.
  void finish(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard);

 private:
  std::string file(const char* name) const;

  std::string path_;
  int folder_ = -1, cells_ = -1;  // descriptors
};

// The grid and the cells of a folder, for merging. Throws InputError if there is none.
struct SweepFound {
  SweepGrid grid;
  std::map<std::size_t, SweepCell> cells;
};
SweepFound read_sweep(const std::string& folder);

}  // namespace panpipe::study
