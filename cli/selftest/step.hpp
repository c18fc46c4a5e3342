// What a step of `panpipe selftest` brings: a line for the terminal, what is wrong with a remedy, and figures for the document.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace panpipe::cli {

// Something that a user should know. `wrong`: the machine or Panpipe does not do what it should, and the exit code is 1; else it
// is only said.
struct Trouble {
  bool wrong = true;
  std::string what, remedy;
};

struct StepReport {
  std::string name;  // "transports"
  std::string text;  // what came of it, one line
  bool done = true;  // false: left out, or it could not be done; `text` says why
  std::vector<Trouble> troubles;
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();

  bool wrong() const {
    for (const Trouble& trouble : troubles)
      if (trouble.wrong) return true;
    return false;
  }
};

}  // namespace panpipe::cli
