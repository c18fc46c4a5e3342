// 1f1b with the passes of a vocabulary that is cut over all ranks: one more microbatch in flight for each barrier.
#include <algorithm>
#include <vector>

#include "schedule/order_building.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe {
namespace {

constexpr int kForward = 1, kBackward = 2;  // times of the passes that the rows are laid out for

// A rank's place in the period of one forward, one backward and one S, which is moved by whole passes from rank to rank so that
// all ranks run S of a microbatch at nearly the same time.
struct RankTurn {
  bool backward_first = true;  // S follows the backward, else the forward
  int warmup = 0;              // S passes before the rank's first backward, the first one not counted
};

std::vector<RankTurn> rank_turns(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<RankTurn> turns;  // from the last rank to the first
  turns.push_back({});
  for (int offset = 0; turns.size() < count;) {
    if (offset - kForward >= -kBackward) {
      offset -= kForward;
    } else {
      turns.push_back({false});
      offset += kBackward - kForward;
    }
    turns.push_back({});
  }
  turns.resize(count);
  for (std::size_t i = 1; i < count; ++i)
    turns[i].warmup = turns[i - 1].warmup + (!turns[i - 1].backward_first && turns[i].backward_first ? 0 : 1);
  std::reverse(turns.begin(), turns.end());
  return turns;
}

class VocabularyRow {
 public:
  VocabularyRow(const std::vector<RankTurn>& turns, int rank, int microbatches, int barriers)
      : turns_(turns), rank_(rank), ranks_(static_cast<int>(turns.size())), microbatches_(microbatches), more_(barriers - 1) {}

  Row make() {
    const RankTurn& own = turns_[static_cast<std::size_t>(rank_)];
    const int first = std::min(ranks_ - rank_, microbatches_);  // forwards before the first S
    for (int i = first; i < std::min(ranks_, microbatches_) + 1; ++i) add(ActionKind::E, embedded_);
    for (int i = 0; i < first; ++i) {
      add(ActionKind::E, embedded_);
      add(ActionKind::F, forwards_);
    }
    head();
    if (more_ > 0) add(ActionKind::E, embedded_);
    add(ActionKind::F, forwards_);
    if (more_ > 0) {
      head();
      add(ActionKind::F, forwards_);
    }
    for (int i = 0; i < own.warmup && heads_ < microbatches_ + more_; ++i) head_and_embedding();
    while (forwards_ < microbatches_) {
      add(ActionKind::B, backwards_);
      if (own.backward_first) head_and_embedding();
      add(ActionKind::F, forwards_);
      if (!own.backward_first) head_and_embedding();
    }
    while (backwards_ < microbatches_) {
      add(ActionKind::B, backwards_);
      head_and_embedding();
    }
    while (gradients_ < microbatches_) add(ActionKind::G, gradients_);
    while (heads_ <= microbatches_) head();
    return std::move(row_);
  }

 private:
  void add(ActionKind kind, int& next) {
    if (next < microbatches_) row_.push_back(pass(kind, rank_, next++));
  }

  // The weights' gradient of the microbatch before, then the products of the next one.
  void head() {
    if (heads_ > 0) row_.push_back(pass(ActionKind::T, rank_, heads_ - 1));
    if (heads_ < microbatches_) row_.push_back(pass(ActionKind::S, rank_, heads_));
    ++heads_;
  }

  // Behind S: the embedding of a microbatch that enters later, and the gradient of one that has left.
  void head_and_embedding() {
    const int now = std::min(heads_, microbatches_), from = turns_.front().warmup + more_;
    if (heads_ < microbatches_ + more_) head();
    if (now >= from) add(ActionKind::E, embedded_);
    if (now >= from + 2 && backwards_ > 0) add(ActionKind::G, gradients_);
  }

  const std::vector<RankTurn>& turns_;
  int rank_, ranks_, microbatches_, more_;
  int embedded_ = 0, forwards_ = 0, backwards_ = 0, gradients_ = 0, heads_ = 0;
  Row row_;
};

}  // namespace

Schedule vocabulary_1f1b(int ranks, int microbatches, int barriers) {
  Schedule schedule = linear_schedule("1f1b", ranks, microbatches);
  schedule.vocabulary_barriers = barriers;
  const std::vector<RankTurn> turns = rank_turns(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    schedule.order[static_cast<std::size_t>(rank)] = VocabularyRow(turns, rank, microbatches, barriers).make();
  return schedule;
}

}  // namespace panpipe
