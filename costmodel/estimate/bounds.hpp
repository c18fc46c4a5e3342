// Lower bounds of a step time that cost less than a replay: what a search rejects plans with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "costmodel/estimate/pipeline_order.hpp"
#include "costmodel/estimate/structure.hpp"

namespace panpipe {

// How often each entry of the tables lies on one path through a structure. The step time is the largest sum over all paths, so
// for any costs of the same structure: step time >= path_time, with equality where the path is critical.
struct CriticalPath {
  std::vector<double> counts;  // [cost_entries], then [delay_entries]
  bool operator==(const CriticalPath&) const = default;
};

// The path that made the last end as late as it is, walked back from there. `ends` is what replay left.
CriticalPath critical_path(const Structure& structure, const double* delays, const double* ends);

double path_time(const Structure& structure, const CriticalPath& path, const double* costs, const double* delays);

// Critical paths met so far, each once. The bound is the largest of them: O(paths x entries), whatever the number of
// microbatches.
class PathPool {
 public:
  explicit PathPool(const Structure& structure);
  bool insert(const CriticalPath& path);  // false when it is known
  double bound(const double* costs, const double* delays) const;
  std::size_t size() const { return row_length_ == 0 ? 0 : counts_.size() / row_length_; }

 private:
  std::size_t cost_entries_, row_length_;
  std::vector<double> counts_;  // [path][cost entries, delay entries]
};

// A closed form: no rank starts before the forwards of the stages before its first one, it then works through all its passes, and
// after its last gradient the gradients of the stages before still have to be made, beside weight gradients of its own. Holds for
// every order of lone F, B, I and W over linear chains of stages (no groups, no sequence splits).
class ClosedFormBound {
 public:
  explicit ClosedFormBound(const PipelineOrder& order);
  // Tables as for a structure of the order; `scratch` has scratch_size() values.
  double operator()(const double* costs, const double* delays, double* scratch) const;
  std::size_t scratch_size() const { return 2 * stages_.size(); }

 private:
  struct Stage {
    std::int32_t index = 0, before = -1;
    std::uint32_t gradient = 0, other_gradient = 0;  // cost entries of I or B; both kinds when the order mixes them
    std::uint32_t forward_delay = 0;                 // into this stage, 0 on one rank
    std::uint32_t backward_delay = 0;                // out of this stage towards the one before
  };
  struct Work {
    std::uint32_t entry = 0;
    double count = 0, count_after = 0;  // passes on the rank; of these after its last gradient
  };
  struct Rank {
    std::int32_t first_stage = 0, last_stage = -1;  // of its first action; of its last gradient, -1 = none
    std::uint32_t first_work = 0, works = 0;
  };
  std::vector<Stage> stages_;  // each after the one before it in its chain
  std::vector<Rank> ranks_;
  std::vector<Work> work_;
};

}  // namespace panpipe
