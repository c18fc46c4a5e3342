// A what-if study: a scenario, and keys of it that take several values each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace panpipe::planner {

struct SweepAxis {
  std::string key;  // "parallel.pipeline"
  std::vector<std::string> values;
};

// "KEY=V1,V2,V3". Commas inside brackets, braces and quotes belong to a value. InputError: no '=', no value, a value twice.
SweepAxis parse_axis(const std::string& text);

struct SweepGrid {
  std::string version;            // of the program
  std::string scenario;           // file
  std::string engine;             // "estimate", "simulate"
  std::string method;             // of the planner that is asked for each cell; empty: the scenario's own plan
  std::vector<std::string> sets;  // --set, for all cells
  std::vector<SweepAxis> axes;    // the last one varies fastest
  std::string heading;            // lines on what all cells share, for readers; says nothing about which grid it is

  std::size_t size() const;
  std::vector<std::string> values(std::size_t cell) const;     // one per axis
  std::vector<std::string> overrides(std::size_t cell) const;  // the sets, then "KEY=VALUE" per axis
  std::string key(std::size_t cell) const;                     // hash of everything above that the cell depends on
  std::string title(std::size_t cell) const;                   // "schedule.name=1f1b, parallel.pipeline=4"
};

// InputError: no axis, two of one key, a key that --set gives as well.
void check_grid(const SweepGrid& grid);

std::string to_json(const SweepGrid& grid);  // panpipe-sweep-grid/1
// InputError: not such a document.
SweepGrid parse_grid(const std::string& text, const std::string& path);

}  // namespace panpipe::planner
