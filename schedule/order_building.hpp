// Shared by the family files: empty schedules of each placement, passes, groups, typed options.
#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

using Row = std::vector<Action>;

// Stage s on rank s.
Schedule linear_schedule(std::string name, int ranks, int microbatches);
// `stages_per_rank` stages on each rank, stage s on rank s mod ranks.
Schedule looped_schedule(std::string name, int ranks, int microbatches, int stages_per_rank);
// A V: rank r holds stages r and 2p-1-r, so rank 0 holds the first and the last. More than two stages per rank make a wave: each
// further pass through the ranks runs in the opposite direction.
Schedule v_schedule(std::string name, int ranks, int microbatches, int stages_per_rank = 2);
// Two chains in opposite directions: stage s of chain 0 on rank s, stage p+s of chain 1 on rank p-1-s. `microbatches` counts both
// chains and must be even.
Schedule bidirectional_schedule(std::string name, int ranks, int microbatches);

// Chains of equal length, one behind the other; stage s on rank_of(s).
template <class RankOf>
Schedule chained_schedule(std::string name, int ranks, int microbatches, int chains, int length, RankOf rank_of) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.ranks = ranks;
  schedule.microbatches = microbatches;
  schedule.stages = chains * length;
  schedule.chains.resize(static_cast<std::size_t>(chains));
  schedule.order.resize(static_cast<std::size_t>(ranks));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    schedule.chains[static_cast<std::size_t>(stage / length)].push_back(stage);
    schedule.stage_to_rank.push_back(rank_of(stage));
  }
  const std::size_t passes = static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(microbatches / chains);
  for (Row& row : schedule.order) row.reserve(3 * passes / schedule.order.size());  // F, I, W
  return schedule;
}

inline Action pass(ActionKind kind, int stage, int microbatch, int split = -1) {
  return {kind, GroupKind::None, 1, static_cast<std::int8_t>(split), stage, microbatch};
}
void add_group(Row& row, GroupKind kind, std::initializer_list<Action> members);

// Appends the pass of a stage for the microbatch with which it is called.
template <ActionKind kind>
struct AddsPass {
  Row& row;
  int stage;
  void operator()(int microbatch) const { row.push_back(pass(kind, stage, microbatch)); }
};

// The rule of 1F1B: some forwards ahead, then one forward and one backward in turn, then the backwards that are left. Calls
// forward(k) and backward(k) for the k-th of `total`.
template <class Forward, class Backward>
void take_turns(int total, int ahead, Forward forward, Backward backward) {
  const int first = std::min(ahead, total);
  for (int k = 0; k < first; ++k) forward(k);
  for (int k = 0; k < total; ++k) {
    if (first + k < total) forward(first + k);
    backward(k);
  }
}
// The same with split backwards: weight(k) comes `behind` input gradients later.
template <class Forward, class Input, class Weight>
void take_split_turns(int total, int ahead, int behind, Forward forward, Input input, Weight weight) {
  take_turns(total, ahead, forward, [&](int k) {
    input(k);
    if (k >= behind) weight(k - behind);
  });
  for (int k = std::max(0, total - behind); k < total; ++k) weight(k);
}

// Writes one rank's row pass by pass. Each call takes the next microbatch of its pass, so a family only states the pass and the
// chunk (the rank's stages in forward order). I and B count together.
class RowBuilder {
 public:
  RowBuilder(Row& row, std::vector<int> stages)
      : row_(row), stages_(std::move(stages)), forwards_(stages_.size(), 0), backwards_(stages_.size(), 0) {}

  Action F(int chunk) { return next(ActionKind::F, chunk, forwards_); }
  Action B(int chunk) { return next(ActionKind::B, chunk, backwards_); }
  Action I(int chunk);
  Action W(int chunk = -1);  // for the input gradient that has waited longest; -1: of any chunk
  bool has_weights() const { return !waiting_.empty(); }
  int forwards(int chunk) const { return forwards_[chunk]; }

  void add(const Action& action) { row_.push_back(action); }
  void add(GroupKind kind, std::initializer_list<Action> members) { add_group(row_, kind, members); }
  // Of rank `rank` of a V: forwards until the first microbatch has come back, then both chunks in turn.
  void add_first_forwards(int ranks, int rank);

 private:
  Action next(ActionKind kind, int chunk, std::vector<int>& counts) const { return pass(kind, stages_[chunk], counts[chunk]++); }

  Row& row_;
  std::vector<int> stages_, forwards_, backwards_;
  std::deque<Action> waiting_;  // W of the input gradients so far, oldest first
};

// The option's value, or the fallback. The names were checked against the family's table before. Throw InputError if the text is
// not a number (boolean, word) or is below `at_least`.
int integer_option(const ScheduleOptions& options, const std::string& key, int fallback, int at_least);
// The option sequence_splits: at most what an action can name.
int splits_option(const ScheduleOptions& options, int fallback);
bool boolean_option(const ScheduleOptions& options, const std::string& key, bool fallback);
// One of `words`; the first if the option is not given.
std::string word_option(const ScheduleOptions& options, const std::string& key, std::initializer_list<std::string_view> words);

// Sources that several families cite.
namespace published {
constexpr std::string_view kControllableMemory = "Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024";
constexpr std::string_view kZeroBubble = "Qi et al., Zero bubble pipeline parallelism, ICLR 2024";
constexpr std::string_view kPipeOffload = "Wan et al., PipeOffload, ICML 2025";
constexpr std::string_view kDualPipe = "DeepSeek-V3 technical report, 2024; github.com/deepseek-ai/DualPipe";
}  // namespace published

}  // namespace panpipe
