#include "schedule/action.hpp"

#include <array>

#include "base/error.hpp"

namespace panpipe {

std::string_view name_of(ActionKind kind) {
  static constexpr std::array<std::string_view, kActionKinds> kNames = {
      "F",       "I",           "W",       "B",      "R",   "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD",
      "RESHARD", "REDUCE_GRAD", "OFFLOAD", "RELOAD", "OPT", "SYNC",   "E",      "S",      "T",      "G"};
  const auto index = static_cast<std::size_t>(kind);
  PANPIPE_CHECK(index < kNames.size(), "an action of no kind");
  return kNames[index];
}

std::string_view name_of(GroupKind kind) {
  static constexpr std::string_view kNames[] = {"", "OVERLAP_F_B", "OVERLAP_F_W", "OVERLAP_F_F", "OVERLAP"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_text(const Action& action) {
  std::string text;
  if (action.stage >= 0) text += std::to_string(action.stage);
  text += name_of(action.kind);
  if (action.microbatch >= 0) text += std::to_string(action.microbatch);
  if (action.split >= 0) text += '.' + std::to_string(action.split);
  return text;
}

std::string cell_text(const Action* first) {
  if (first->group_size <= 1) return to_text(*first);
  std::string text = "(";
  for (std::size_t i = 0; i < first->group_size; ++i) {
    if (i > 0) text += ';';
    text += to_text(first[i]);
  }
  text += ')';
  text += name_of(first->group);
  return text;
}

}  // namespace panpipe
