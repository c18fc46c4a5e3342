// The folder of a sweep: grid.json says what is swept, cells.jsonl holds a line per cell that is done, sweep.json, sweep.csv and
// sweep.html are written at the end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "study/sweep/cell.hpp"
#include "study/sweep/grid.hpp"

namespace panpipe::planner {

class SweepFolder {
 public:
  // Makes the folder and locks it. MachineError: cannot be made, or another sweep writes into it.
  explicit SweepFolder(std::string path);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

  // Cells of this grid that an earlier call finished and that still hold: answers and refusals whose input files have not
  // changed. What else stands in the file is forgotten. Faults of the input and of the machine are tried again.
  std::map<std::size_t, SweepCell> begin(const SweepGrid& grid);
  void append(const SweepCell& cell);  // one write, so that a line is there whole or not at all
  // All cells in the grid's order, and the documents.
  void finish(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard);

 private:
  std::string file(const char* name) const;

  std::string path_;
  int folder_ = -1, cells_ = -1;  // descriptors
};

// The grid and the cells of a folder, for merging. InputError when there is none.
struct SweepFound {
  SweepGrid grid;
  std::map<std::size_t, SweepCell> cells;
};
SweepFound read_sweep(const std::string& folder);

}  // namespace panpipe::planner
