// The arena compares schedules at one size under one ratio of costs: legality, transfer semantics, bubble, memory, the distance
// to a proved bound, and the step on clusters. Comparing a new schedule with all families is one call (docs/arena.md).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "schedule/family_text.hpp"
#include "schedule/schedule.hpp"
#include "schedule/semantics.hpp"

namespace panpipe::study {

// A participant: a family with options, or an order from a file (which has its own sizes).
struct Entrant {
  std::string name;    // "1f1b", "hanayo stages_per_rank=2", "my.csv"
  std::string family;  // empty: an order
  ScheduleOptions options;
  std::optional<Schedule> order;
  std::vector<Schedule> by_ratio = {};  // orders made for the costs of each of the request's ratios, in their order
  const Schedule* given() const { return order ? &*order : by_ratio.empty() ? nullptr : &by_ratio.front(); }
};
// Every family with its defaults; families with stages_per_rank also with 2 and with 4.
std::vector<Entrant> all_families();
// Entrants whose vocabulary is cut, for ratios with a head: each family that has it, with its defaults.
std::vector<Entrant> all_cut_vocabularies();
// True for a family that only the arena offers, since it takes seconds: an order searched under the round's ratio of costs on a
// wave ("wave-search") or a loop ("loop-search"). Options: stages_per_rank, held (microbatches that a rank may hold), comm (delay
// between ranks, in forwards), effort (per cent), seed.
bool is_search(const Entrant& entrant);
const std::vector<std::string>& search_families();
// Throws InputError like check_options.
Entrant entrant_of(FamilyText family);
// Parses "FAMILY" or "FAMILY,KEY=VALUE,...". A name with '/' or '.', or of an existing file, is a CSV file. Throws InputError
// like make_schedule and load_schedule_csv.
Entrant read_entrant(const std::string& text);

// The costs of passes. The forward of a microbatch through a rank's share, cut into any number of stages, is F = 1, and the
// others are relative to it. On a cluster this forward does `work` at kAchieved of the device's bf16 peak, a cut transfers
// `bytes`, a forward leaves `kept` for its backward, and a rank's share of the weights takes `weights`.
struct CostRatio {
  std::string name;
  double I = 1, W = 1;
  Flops work{0};
  Bytes bytes{0};
  Bytes kept{0}, weights{0};
  std::string origin;
  double head = 0;                   // forward of the model's head behind the last stage; each of its gradients takes as long
  double copy = 1;                   // moving what a rank's share leaves of a microbatch to the host, or back, on free links
  std::vector<double> lengths = {};  // of microbatches 0, 1, ... in relation to each other, from the start again behind the last;
                                     // empty: equal. Times and memory of a microbatch are proportional to it
};
inline constexpr double kAchieved = 0.5;
const std::vector<CostRatio>& cost_ratios();  // ratios of known models; the first is the default
// Parses the name of one of them, or "F:I:W" with work and bytes of the default; ":head=H", ":copy=C", ":lengths=L/L/..." may
// follow either. Throws InputError for anything else.
CostRatio read_cost_ratio(const std::string& text);

struct ArenaRequest {
  std::vector<Entrant> entrants;
  int ranks = 4, microbatches = 8;
  std::vector<CostRatio> ratios;
  std::vector<std::string> clusters;  // as a scenario names them
  std::vector<std::string> left_out;  // "h100x8 (8 devices)": default clusters with fewer devices than ranks
  Engine simulate;                    // the engine for shared links
  int threads = 0;                    // 0: all cores
};

// The order with sends and receives placed as in PyTorch, early or late, or as given by the order.
struct Transfers {
  std::string receives;                                    // "early", "late", "given"
  std::array<bool, kTransferSemantics.size()> finishes{};  // in the order of kTransferSemantics
  std::string deadlock;  // the cycle of the first deadlock: "blocking: rank 0: step 3: ..."; empty: none
};

struct ClusterTime {
  double estimated_s = 0, simulated_s = 0;  // idle links, shared links
  std::string refused;                      // the reason if both are missing
};

// One entrant under one ratio of costs. Times are in forwards of a rank's share, memory in such shares of a microbatch.
struct Judged {
  std::size_t entrant = 0;
  std::string refused;              // reason why no order of these sizes exists; the members below are then unset
  std::vector<std::string> faults;  // of an illegal order, the blocked cycle first
  int stages_per_rank = 1;
  int weights = 1;                                            // copies of the model among the ranks, or versions of the weights
  bool on_host = false;                                       // the weights lie in the host's memory
  int staleness = 0;                                          // updates that the gradients do not know of
  bool flushes = true;                                        // false: the makespan is a period
  double makespan = 0, bubble = 0, held = 0, held_least = 0;  // held: by the fullest and by the emptiest rank
  double bound = 0;                                           // StepBound's makespan
  bool bound_in_memory = false;
  std::vector<Transfers> transfers;
  std::vector<ClusterTime> on;  // by cluster
  bool legal() const { return refused.empty() && faults.empty(); }
  double over_bound() const { return std::max(0.0, makespan / bound - 1); }  // max: sums differ in their last digits
};

struct Round {
  CostRatio ratio;
  std::vector<Judged> judged;  // by entrant
};

struct Arena {
  ArenaRequest request;
  std::vector<Round> rounds;  // by ratio
};

// Throws InputError for sizes beyond the cluster's devices, an unknown cluster, or an order of other sizes than requested.
Arena judge(const ArenaRequest& request);

// Indices of the legal entrants by makespan, then memory, then name; the others follow. Those with stale gradients train
// something else: they win nothing.
std::vector<std::size_t> ranking(const Arena& arena, const Round& round);
// The fastest entrant that holds at most `memory`; -1: none. `cluster`: by simulated time on it; -1: by makespan.
int fastest_within(const Arena& arena, const Round& round, double memory, int cluster);
// True for a legal entrant that no other beats, that is, none is as fast and holds no more (one of them strictly).
bool on_front(const Round& round, const Judged& judged);

// The order that was judged, for keeping one that was searched. Throws InputError if there is none.
Schedule order_of(const ArenaRequest& request, const Entrant& entrant, const CostRatio& ratio);

std::string to_table(const Arena& arena);
std::string to_json(const Arena& arena);  // panpipe-arena/1
std::string to_page(const Arena& arena);

}  // namespace panpipe::study
