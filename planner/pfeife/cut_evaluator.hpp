// A schedule made ready to be evaluated for any cuts: lowered and compiled once for the stages that talk to each other (again
// when cuts make others do so), then only its tables of costs are filled anew. Step times are those of lower + estimate.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "costmodel/estimate/compile.hpp"
#include "costmodel/estimate/path_counts.hpp"
#include "costmodel/estimate/replay.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "planner/pfeife/search_space.hpp"

namespace panpipe::planner {

// One number for each cost that a path through a step can have on it; positions are along the chain of stages.
struct PathLayout {
  std::size_t stages = 0, ranks = 0;
  std::size_t pass(std::size_t position, ActionKind kind) const { return position * 4 + static_cast<std::size_t>(kind); }
  std::size_t forward(std::size_t position) const { return stages * 4 + position; }  // the hop in front of the stage
  std::size_t backward(std::size_t position) const { return stages * 5 + position; }
  std::size_t optimizer(std::size_t rank) const { return stages * 6 + rank; }
  // Not on a path, but in the same sums over cuts: bytes of a limit on memory, and the limit itself (a constant).
  std::size_t memory(std::size_t position, std::size_t part) const { return stages * 6 + ranks + position * 3 + part; }
  std::size_t limit() const { return stages * 9 + ranks; }
  std::size_t size() const { return stages * 9 + ranks + 1; }
};
using PathWeights = std::vector<double>;  // how often each lies on the path

class CutEvaluator {
 public:
  // Throws NoAnswer when the order cannot finish. The schedule must have one chain of stages.
  CutEvaluator(const SearchSpace& space, const Schedule& schedule, const Cuts& first);

  int stages() const { return static_cast<int>(chain_.size()); }
  PathLayout layout() const { return {chain_.size(), static_cast<std::size_t>(space_.ranks())}; }
  int rank_of(int position) const { return ranks_[static_cast<std::size_t>(position)]; }
  const SearchSpace& space() const { return space_; }
  const Schedule& schedule() const { return plan_.schedule; }
  bool uses(ActionKind kind) const { return uses_[static_cast<std::size_t>(kind)]; }
  // Into the first stage no gradient comes.
  bool all_in_weight(int position) const { return backward_all_in_weight(space_.scenario(), position > 0); }

  // Step times in ticks, one per cuts. `modes`: none, one for all cuts, or one for each.
  void replay(const std::vector<Cuts>& many, std::vector<double>& times, const std::vector<Modes>& modes = {});
  double replay(const Cuts& cuts);
  // The critical path of these cuts; `time`: their step time.
  PathWeights critical_path(const Cuts& cuts, double& time);
  // The same with given costs in the layout of a path (what is not in it as for these cuts), and softened: all paths that are
  // shorter by no more than a few `soft` ticks count. Returns about the step time.
  double soft_path(const Cuts& cuts, const std::vector<double>& costs, double soft, PathWeights& weights);
  // The share of its devices' limit that each rank uses: at most 1 fits.
  std::vector<double> memory_shares(const Cuts& cuts, const Modes& modes = {});
  // The largest of them, which rank has it, and its peak.
  double memory_share(const Cuts& cuts, const Modes& modes = {}, int* rank = nullptr, Bytes* peak = nullptr);
  Plan plan(const Cuts& cuts, const Modes& modes) const { return space_.plan(plan_.schedule, cuts, modes); }
  // Links between stages that some cuts had.
  const std::vector<StageLink>& links_met() const { return links_met_; }

 private:
  struct Split {
    Cuts cuts;
    Modes modes;
  };
  struct PassEntry {
    std::size_t entry = 0;
    int position = 0;
    ActionKind kind{};
    int type = 0;
    std::array<const double*, 3> plain{};  // by mode: StageTicks::plain_ticks
  };
  struct RankEntry {
    std::size_t entry = 0;
    int rank = 0;
    std::vector<int> positions;  // of the rank's stages
  };
  struct FlowEntry {  // a reduction of a stage: its wire time follows the stage's parameters
    std::size_t entry = 0;
    int position = 0;
    double latency = 0, per_element = 0;
  };
  struct LinkEntry {
    std::size_t entry = 0;
    std::size_t link = 0;  // into the links of the cuts
    int from_rank = 0, to_rank = 0;
    bool backward = false;
    const Sums* hops = nullptr;  // of a chain: by cut
  };
  // For a set of (from, to, gradient). Where each stage reads from the one before it, a link too many with no delay changes
  // nothing, and one variant grows; else there is one for every set.
  struct Variant {
    std::vector<StageLink> links;
    std::array<Split, kBatch> lanes;  // what the tables of eight are filled for
    Split single;                     // and those of one
    CompiledGraph graph;
    std::vector<PassEntry> passes;
    std::vector<RankEntry> optimizers;
    std::vector<FlowEntry> flows;
    std::vector<LinkEntry> delays;
    std::unique_ptr<BatchProgram> program;
    std::vector<Eight> costs, delay_table, values;
    std::vector<double> single_costs, single_delays, ends, by_link, counts;
  };

  void gather(const Variant& variant, const double* cost_counts, const double* delay_counts, PathWeights& weights) const;
  Variant& variant_of(const Cuts& cuts);
  std::unique_ptr<Variant> make_variant(const Cuts& cuts);
  void map_tasks(const TaskGraph& graph, Variant& variant) const;
  bool holds_links(Variant& variant) const;
  std::vector<std::array<double, 2>> message_work(const Variant& variant, const Cuts& cuts) const;
  // `before`: what the tables were filled for; what depends on unchanged cuts is left as it is.
  template <class PutCost, class PutDelay>
  void fill(const Variant& variant, const Cuts& cuts, const Modes& modes, const Split& before, PutCost put_cost,
            PutDelay put_delay) const;
  void fill_single(Variant& variant, const Cuts& cuts);
  double stage_ticks(const PassEntry& pass, const Cuts& cuts, Recompute mode) const;
  double transfer(int from_rank, int to_rank, std::int64_t bytes) const;  // as the space's, kept
  int begin_of(const Cuts& cuts, int position) const { return position == 0 ? 0 : cuts[static_cast<std::size_t>(position) - 1]; }
  int end_of(const Cuts& cuts, int position) const {
    return position + 1 < stages() ? cuts[static_cast<std::size_t>(position)] : space_.units();
  }

  const SearchSpace& space_;
  Plan plan_;
  std::vector<int> chain_, ranks_, position_of_stage_;
  std::array<bool, 5> uses_{};
  bool messages_take_time_ = false;  // of both their ends
  std::vector<std::unique_ptr<Variant>> variants_;
  std::vector<StageLink> links_met_, links_;                     // links_: scratch
  mutable std::unordered_map<std::uint64_t, double> transfers_;  // ticks, by bytes and ranks
};

}  // namespace panpipe::planner
