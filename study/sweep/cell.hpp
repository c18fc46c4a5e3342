// A cell of a sweep: one combination of values, and its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace panpipe::study {

enum class CellStatus : std::uint8_t {
  Fits,
  TooLarge,   // an answer, but it does not fit in a device's memory
  Refused,    // the input is wrong, such as a schedule that does not exist for these sizes
  NoAnswer,   // a schedule that cannot finish, no feasible plan
  NoMachine,  // this machine cannot, for example without the back end
  Bug         // a bug of Panpipe
};
const char* name_of(CellStatus status);  // "fits", "does not fit", "refused", "no answer", "not on this machine", "bug"

struct SweepCell {
  std::size_t index = 0;  // in the grid
  std::string key;        // SweepGrid::key
  CellStatus status = CellStatus::Bug;
  std::string reason;                                       // one line; of a cell that fits: that hardly anything is left
  std::vector<std::pair<std::string, double>> metrics;      // as in a result document; empty without an answer
  std::string plan;                                         // one line: the planner's choice; empty if no planner was used
  std::vector<std::string> evidence;                        // evidence_lines of the answer; empty: none was given
  std::vector<std::pair<std::string, std::string>> inputs;  // file -> sha-256 of its content when read

  bool has_answer() const { return status == CellStatus::Fits || status == CellStatus::TooLarge; }
  std::optional<double> metric(const std::string& name) const;
};

// Convert to and from one line of JSON, without its line end. parse_line returns nullopt for any other line.
std::string to_line(const SweepCell& cell);
std::optional<SweepCell> parse_line(const std::string& line);

}  // namespace panpipe::study
