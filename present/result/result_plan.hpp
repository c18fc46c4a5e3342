// What a plan adds to the document of its result: what it decided, and what its traffic goes over.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "present/result/result.hpp"

namespace panpipe {

// For whoever has the document alone.
struct PlanFacts {
  std::string schedule;   // its name
  std::string transfers;  // predictions: "asynchronous", "blocking", "batched"
  int pipeline = 1, tensor = 1, data = 1, zero = 0, micro = 1;
  int shard = 0;  // replicas of a shard group, where ZeRO divides over fewer than all
  int context = 1;
  int expert = 1, expert_tensor = 0;  // ranks that share out the experts; that divide one, 0: as tensor
  int stages = 1, recomputed_stages = 0, fully_recomputed_stages = 0;
  bool splits_backward = false;      // input and weight gradients are passes of their own
  bool braided = false;              // some passes run as groups
  bool overlaps_reductions = false;  // gradients are summed over replicas beside backward passes
};

struct ResultPlan {
  PlanFacts facts;
  // "tensor", "pipeline", "data" and the classes of path, from near to far.
  std::vector<std::pair<std::string, std::vector<std::string>>> paths;
  std::string heading = {};  // the lines that head a text of this result, each with its "\n"
};

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, const ResultPlan& plan,
                           bool with_timeline);

}  // namespace panpipe
