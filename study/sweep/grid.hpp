// The grid of a what-if study: a scenario, and keys with several values each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace panpipe::study {

struct SweepAxis {
  std::string key;  // "parallel.pipeline"
  std::vector<std::string> values;
};

// Parses "KEY=V1,V2,V3". Commas inside brackets, braces and quotes belong to a value. Throws InputError for a missing '=', no
// value, or a repeated value.
SweepAxis parse_axis(const std::string& text);

// Whether a key states what is given (the cluster, prices, the model) and not what somebody chooses (degrees, schedule, batch):
// one wants to know the best choice for each value of it.
bool is_given(const std::string& key);

struct SweepGrid {
  std::string version;            // of the program
  std::string scenario;           // file
  std::string engine;             // "estimate", "simulate"
  std::string method;             // the planner's method for each cell; empty: the scenario's own plan
  std::vector<std::string> sets;  // --set, for all cells
  std::vector<SweepAxis> axes;    // the last one varies fastest
  std::string heading;            // lines about all cells, for readers; not part of the grid's identity

  std::size_t size() const;
  std::vector<std::string> values(std::size_t cell) const;     // one per axis
  std::vector<std::string> overrides(std::size_t cell) const;  // the sets, then "KEY=VALUE" per axis
  std::string key(std::size_t cell) const;                     // hash of all members above that affect the cell
  std::string title(std::size_t cell) const;                   // "schedule.name=1f1b, parallel.pipeline=4"
  // The parts of the title that are given, and that are chosen. Where nothing is chosen, all of it is compared: nothing is given.
  std::string environment(std::size_t cell) const;
  std::string choice(std::size_t cell) const;
  bool separates(std::size_t axis) const;  // whether cells of different values are not compared
};

// Throws InputError for a grid without axis, with two axes of one key, or with a key that --set also gives.
void check_grid(const SweepGrid& grid);

std::string to_json(const SweepGrid& grid);  // panpipe-sweep-grid/1
// Throws InputError for another kind of document.
SweepGrid parse_grid(const std::string& text, const std::string& path);

}  // namespace panpipe::study
