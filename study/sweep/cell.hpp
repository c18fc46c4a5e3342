// A cell of a sweep: one choice of values, and what came out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace panpipe::planner {

enum class CellStatus : std::uint8_t {
  Fits,
  TooLarge,   // an answer, but a device's memory does not hold it
  Refused,    // the input is wrong: a schedule that these sizes do not have, say
  NoAnswer,   // a schedule that cannot finish, no feasible plan
  NoMachine,  // this machine cannot: no such back end here
  Bug         // ours
};
const char* name_of(CellStatus status);  // "fits", "does not fit", "refused", "no answer", "not on this machine", "bug"

struct SweepCell {
  std::size_t index = 0;  // in the grid
  std::string key;        // SweepGrid::key
  CellStatus status = CellStatus::Bug;
  std::string reason;                                       // one line; empty when it fits
  std::vector<std::pair<std::string, double>> metrics;      // as in a result document; empty without an answer
  std::string plan;                                         // one line: what the planner chose; empty when it was not asked
  std::vector<std::pair<std::string, std::string>> inputs;  // file -> sha-256 of what was read

  bool has_answer() const { return status == CellStatus::Fits || status == CellStatus::TooLarge; }
  std::optional<double> metric(const std::string& name) const;
};

// One line of JSON, without its end; and back. Nothing when it is not such a line.
std::string to_line(const SweepCell& cell);
std::optional<SweepCell> parse_line(const std::string& line);

}  // namespace panpipe::planner
