// The arena: schedules beside each other, at one size under one ratio of costs: legality, transfer semantics, bubble, memory, the
// distance to a proved bound, and the step on clusters. A new schedule beside all families is one call (docs/arena.md).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "schedule/schedule.hpp"
#include "schedule/semantics.hpp"

namespace panpipe::arena {

// Who takes part: a family with options, or an order of a file (whose sizes are its own).
struct Entrant {
  std::string name;    // "1f1b", "hanayo stages_per_rank=2", "my.csv"
  std::string family;  // empty: an order
  ScheduleOptions options;
  std::optional<Schedule> order;
  std::vector<Schedule> by_ratio = {};  // orders made for the costs of each of the request's ratios, in their order
  const Schedule* given() const { return order ? &*order : by_ratio.empty() ? nullptr : &by_ratio.front(); }
};
// Every family with its defaults, and those with stages_per_rank with 2 and with 4.
std::vector<Entrant> all_families();
// A family that only the arena knows, since it takes seconds: an order that is searched under the round's ratio of costs on a
// wave
// ("wave-search") or a loop ("loop-search"). Options: stages_per_rank, held (microbatches that a rank may hold), comm (delay
// between ranks, in forwards), effort (per cent), seed.
bool is_search(const Entrant& entrant);
const std::vector<std::string>& search_families();
// "FAMILY" or "FAMILY,KEY=VALUE,..."; a name with '/' or '.', or of a file that is there, is a CSV file. InputError as
// make_schedule and load_schedule_csv throw.
Entrant read_entrant(const std::string& text);

// What passes take. A microbatch's share of a rank, whatever number of stages it is cut into: the forward F = 1, the others
// relative to it. On a cluster the forward takes `work` at kAchieved of the device's bf16 peak, and a cut hands over `bytes`.
struct CostRatio {
  std::string name;
  double I = 1, W = 1;
  Flops work{0};
  Bytes bytes{0};
  std::string origin;
};
inline constexpr double kAchieved = 0.5;
const std::vector<CostRatio>& cost_ratios();  // those of known models; the first is the default
// One of them by name, or "F:I:W" with work and bytes of the default. InputError for anything else.
CostRatio read_cost_ratio(const std::string& text);

struct ArenaRequest {
  std::vector<Entrant> entrants;
  int ranks = 4, microbatches = 8;
  std::vector<CostRatio> ratios;
  std::vector<std::string> clusters;  // as a scenario names them
  Engine simulate;                    // shared links
  int threads = 0;                    // 0: all cores
};

// Sends and receives placed as PyTorch does, early or late; or as the order has them.
struct Transfers {
  std::string receives;                                    // "early", "late", "given"
  std::array<bool, kTransferSemantics.size()> finishes{};  // in the order of kTransferSemantics
  std::string deadlock;                                    // the first one's cycle: "blocking: rank 0: step 3: ..."; empty: none
};

struct ClusterTime {
  double estimated_s = 0, simulated_s = 0;  // idle links, shared links
  std::string refused;                      // why there is neither
};

// One entrant under one ratio of costs. Times in forwards of a rank's share, memory in such shares of a microbatch.
struct Judged {
  std::size_t entrant = 0;
  std::string refused;              // why there is no order of these sizes; nothing below is known then
  std::vector<std::string> faults;  // of an order that is not legal, the blocked cycle first
  int stages_per_rank = 1;
  int weights = 1;                                            // copies of the model among the ranks
  double makespan = 0, bubble = 0, held = 0, held_least = 0;  // held: of the fullest and of the emptiest rank
  double bound = 0;                                           // StepBound's makespan
  bool bound_in_memory = false;
  std::vector<Transfers> transfers;
  std::vector<ClusterTime> on;  // by cluster
  bool legal() const { return refused.empty() && faults.empty(); }
  double over_bound() const { return std::max(0.0, makespan / bound - 1); }  // sums differ in their last digits
};

struct Round {
  CostRatio ratio;
  std::vector<Judged> judged;  // by entrant
};

struct Arena {
  ArenaRequest request;
  std::vector<Round> rounds;  // by ratio
};

// InputError: sizes beyond the cluster's devices, an unknown cluster, an order of other sizes than the request's.
Arena judge(const ArenaRequest& request);

// Indices of the legal ones by makespan, then memory, then name; the others after them.
std::vector<std::size_t> ranking(const Arena& arena, const Round& round);
// The fastest that hold at most so much memory; -1: none. `cluster`: by simulated time there; -1: by makespan.
int fastest_within(const Arena& arena, const Round& round, double memory, int cluster);
// Legal ones that no other beats: none is as fast and holds no more (one of them strictly).
bool on_front(const Round& round, const Judged& judged);

// The order as it was judged, for who wants to keep one that was searched; InputError where there is none.
Schedule order_of(const ArenaRequest& request, const Entrant& entrant, const CostRatio& ratio);

std::string to_table(const Arena& arena);
std::string to_json(const Arena& arena);  // panpipe-arena/1
std::string to_page(const Arena& arena);

}  // namespace panpipe::arena
