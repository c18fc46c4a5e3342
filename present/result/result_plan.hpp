// The plan in the document of its result: its decisions, and the paths of its traffic.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "present/result/result.hpp"

namespace panpipe::present {

// For readers who have only the document.
struct PlanFacts {
  std::string schedule;   // its name
  std::string transfers;  // predictions: "asynchronous", "blocking", "batched"
  Degrees degrees;        // ZeRO as it takes effect; a shard group only if it is smaller than all replicas
  int stages = 1, recomputed_stages = 0, fully_recomputed_stages = 0;
  bool splits_backward = false;      // input and weight gradients are separate passes
  bool braided = false;              // some passes run as groups
  bool overlaps_reductions = false;  // gradients are summed over replicas during backward passes
};

struct ResultPlan {
  PlanFacts facts;
  // "tensor", "pipeline", "data", each with its classes of path from near to far.
  std::vector<std::pair<std::string, std::vector<std::string>>> paths;
  std::string heading = {};  // the heading lines of this result's text, each with its "\n"
};

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, const ResultPlan& plan,
                           bool with_timeline);

}  // namespace panpipe::present
