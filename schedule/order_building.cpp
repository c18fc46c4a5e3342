#include "schedule/order_building.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.hpp"

namespace panpipe {

Schedule linear_schedule(std::string name, int ranks, int microbatches) {
  return looped_schedule(std::move(name), ranks, microbatches, 1);
}

Schedule looped_schedule(std::string name, int ranks, int microbatches, int stages_per_rank) {
  return chained_schedule(std::move(name), ranks, microbatches, 1, ranks * stages_per_rank,
                          [&](int stage) { return stage % ranks; });
}

Schedule v_schedule(std::string name, int ranks, int microbatches, int stages_per_rank) {
  return chained_schedule(std::move(name), ranks, microbatches, 1, ranks * stages_per_rank,
                          [&](int stage) { return stage / ranks % 2 == 0 ? stage % ranks : ranks - 1 - stage % ranks; });
}

Schedule bidirectional_schedule(std::string name, int ranks, int microbatches) {
  return chained_schedule(std::move(name), ranks, microbatches, 2, ranks,
                          [&](int stage) { return stage < ranks ? stage : 2 * ranks - 1 - stage; });
}

void add_group(Row& row, GroupKind kind, std::initializer_list<Action> members) {
  auto size = static_cast<std::uint8_t>(members.size());
  for (Action member : members) {
    member.group = kind;
    member.group_size = size;
    size = 0;  // the first member carries the size
    row.push_back(member);
  }
}

Action RowBuilder::I(int chunk) {
  Action action = next(ActionKind::I, chunk, backwards_);
  waiting_.push_back(action);
  waiting_.back().kind = ActionKind::W;
  return action;
}

Action RowBuilder::W(int chunk) {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Action& w) { return chunk < 0 || w.stage == stages_[chunk]; });
  PANPIPE_CHECK(found != waiting_.end(), "a family asks for a weight gradient before its input gradient");
  const Action oldest = *found;
  waiting_.erase(found);
  return oldest;
}

void RowBuilder::add_first_forwards(int ranks, int rank) {
  for (int i = 0; i < 2 * (ranks - 1 - rank); ++i) add(F(0));
  for (int i = 0; i <= rank; ++i) {
    add(F(0));
    add(F(1));
  }
}

int integer_option(const ScheduleOptions& options, const std::string& key, int fallback, int at_least) {
  const auto found = options.find(key);
  if (found == options.end()) return fallback;
  const std::string& text = found->second;
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size())
    throw InputError(fmt::format("option '{}' of a schedule must be a whole number, not '{}'", key, text));
  if (value < at_least)
    throw InputError(fmt::format("option '{}' of a schedule must be at least {}, not {}", key, at_least, value));
  return value;
}

int splits_option(const ScheduleOptions& options, int fallback) {
  constexpr int kMost = std::numeric_limits<decltype(Action::split)>::max();
  const int splits = integer_option(options, "sequence_splits", fallback, 1);
  if (splits <= kMost) return splits;
  throw InputError(fmt::format("option 'sequence_splits' of a schedule must be at most {}, not {}", kMost, splits));
}

bool boolean_option(const ScheduleOptions& options, const std::string& key, bool fallback) {
  const auto found = options.find(key);
  if (found == options.end()) return fallback;
  if (found->second == "true") return true;
  if (found->second == "false") return false;
  throw InputError(fmt::format("option '{}' of a schedule must be true or false, not '{}'", key, found->second));
}

std::string word_option(const ScheduleOptions& options, const std::string& key, std::initializer_list<std::string_view> words) {
  const auto found = options.find(key);
  if (found == options.end()) return std::string(*words.begin());
  if (std::find(words.begin(), words.end(), found->second) != words.end()) return found->second;
  throw InputError(
      fmt::format("option '{}' of a schedule must be one of {}, not '{}'", key, fmt::join(words, ", "), found->second));
}

}  // namespace panpipe
