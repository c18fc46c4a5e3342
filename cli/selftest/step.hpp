// The result of a step of `panpipe selftest`: a line for the terminal, faults with a remedy, and figures for the document.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace panpipe::cli {

// A finding for the user. If `wrong` is set, the machine or Panpipe misbehaves and the exit code is 1; otherwise it is only
// reported.
struct Trouble {
  bool wrong = true;
  std::string what, remedy;
};

struct StepReport {
  std::string name;  // "transports"
  std::string text;  // the outcome, one line
  bool done = true;  // false: skipped or not possible; `text` gives the reason
  std::vector<Trouble> troubles;
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();

  bool wrong() const {
    for (const Trouble& trouble : troubles)
      if (trouble.wrong) return true;
    return false;
  }
};

}  // namespace panpipe::cli
