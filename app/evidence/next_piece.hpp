// `panpipe evidence next`: which measurement would narrow the interval of a scenario most, and what it costs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe::app {

// A measurement that could be made.
struct PossiblePiece {
  std::string kind, what;             // "log", "ten steps with parallel.tensor=4"
  std::vector<std::string> set;       // of the steps: overrides of the scenario
  std::vector<std::string> commands;  // that measure it, and that use it
  int gpus = 1;
  double gpu_seconds = 0;                                          // predicted of steps, else about
  double step_time_s = 0;                                          // of steps
  double half_width_after = 0;                                     // expected
  bool is_repeat() const { return kind == "log" && set.empty(); }  // steps of the scenario itself
};

struct NextPiece {
  double half_width = 0;             // now
  std::vector<EvidencePiece> given;  // as they count now
  // The scenario itself, and what narrows notably: the one that narrows most first; those that look alike by their cost.
  std::vector<PossiblePiece> pieces;
  bool narrows(const PossiblePiece& piece) const;  // notably
};

// `load` reads the scenario with more overrides. Throws InputError as it does, and NoAnswer where the costs are given.
NextPiece next_piece(const std::string& name, const std::function<Scenario(const std::vector<std::string>& more)>& load);

std::string to_text(const NextPiece& next);
std::string to_json(const NextPiece& next);  // panpipe-evidence-next/1

}  // namespace panpipe::app
