// Which degrees may stand together: the rules for the scenario's reader, plans, searches, workloads and importers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/degrees/degrees.hpp"

namespace panpipe {

// Facts that the degrees are checked against. Unknown facts are not checked.
struct DegreeFacts {
  std::int64_t devices = 0;                    // of the cluster; 0: not known
  std::string devices_from = {}, stated = {};  // places for messages: of that number, and of the degrees; may be empty
  bool replicas = true;                        // false: a planner chooses how many there are
  bool all = true;                             // false: a planner chooses others of the degrees
  int experts = -1;                            // of the model; -1: not known
  std::string_view model = {};                 // its name
};

struct DegreeProblem {
  std::string_view key;  // below `parallel:`: the degree at fault
  std::string message, help;
};

// All problems, in a fixed order.
std::vector<DegreeProblem> check_degrees(const Degrees& degrees, const DegreeFacts& facts = {});
// True if there are none; makes no text.
bool degrees_hold(const Degrees& degrees, const DegreeFacts& facts = {});

// "the cluster has 4 devices (a.yaml:2)".
std::string devices_text(const DegreeFacts& facts);

}  // namespace panpipe
