#include "schedule/text/csv_cell.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace panpipe {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

enum class Takes { StageAndMicrobatch, Stage, Nothing };

Takes takes(ActionKind kind) {
  if (kind >= ActionKind::Unshard && kind <= ActionKind::ReduceGrad) return Takes::Stage;
  return kind == ActionKind::Opt || kind == ActionKind::Sync ? Takes::Nothing : Takes::StageAndMicrobatch;
}

constexpr std::int32_t kTooLarge = 1'000'000'000;  // leaves room for sums in 32 bits

std::optional<ActionKind> find_kind(std::string_view name) {
  for (std::size_t i = 0; i < kActionKinds; ++i)
    if (const auto kind = static_cast<ActionKind>(i); name_of(kind) == name) return kind;
  return std::nullopt;
}

// Reads one cell from left to right; `at_` is where the next character stands.
class CellParser {
 public:
  CellParser(std::string_view text, std::vector<CellAction>& actions, CellFault& fault)
      : text_(text), actions_(actions), fault_(fault) {}

  bool run() {
    if (peek() == '(') return group();
    return simple(text_.size()) && end(text_.size());
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool fail(std::size_t offset, std::string message, std::string help = "") {
    fault_ = {offset, std::move(message), std::move(help)};
    return false;
  }

  // Digits up to `stop` as a number; -1 when there are none, -2 (with the fault) when it is too large.
  std::int32_t number(std::size_t stop, const char* what) {
    const std::size_t first = at_;
    while (at_ < stop && is_digit(text_[at_])) ++at_;
    if (at_ == first) return -1;
    std::int32_t value = 0;
    if (std::from_chars(text_.data() + first, text_.data() + at_, value).ec == std::errc() && value < kTooLarge) return value;
    fail(first, fmt::format("{} {} is too large", what, text_.substr(first, at_ - first)));
    return -2;
  }

  bool simple(std::size_t stop) {
    const std::size_t first = at_;
    CellAction parsed;
    Action& action = parsed.action;
    if ((action.stage = number(stop, "stage")) == -2) return false;
    const std::size_t name_at = at_;
    while (at_ < stop && is_name(text_[at_])) ++at_;
    const std::string_view name = text_.substr(name_at, at_ - name_at);
    if (!kind(name, name_at, first, stop, parsed)) return false;
    switch (takes(action.kind)) {
      case Takes::Nothing:
        if (action.stage >= 0) return fail(first, fmt::format("{} takes no stage", name), fmt::format("write {}", name));
        break;
      case Takes::Stage:
        if (action.stage < 0) return no_stage(first, name);
        if (at_ < stop && is_digit(text_[at_]))
          return fail(at_, fmt::format("{} takes no microbatch", name), fmt::format("write {}{}", action.stage, name));
        break;
      case Takes::StageAndMicrobatch:
        if (action.stage < 0) return no_stage(first, name);
        if (!microbatch(name, stop, action)) return false;
        break;
    }
    actions_.push_back(parsed);
    return true;
  }

  bool no_stage(std::size_t at, std::string_view name) {
    return fail(at, fmt::format("{} names no stage", name), fmt::format("write the stage before it: 2{}", text_.substr(at)));
  }

  bool kind(std::string_view name, std::size_t name_at, std::size_t first, std::size_t stop, CellAction& parsed) {
    if (name == "BW") {  // the older full backward
      parsed.action.kind = ActionKind::B;
      parsed.full_backward = true;
      return true;
    }
    if (const auto found = find_kind(name)) {
      parsed.action.kind = *found;
      return true;
    }
    if (name.empty())
      return fail(name_at, fmt::format("'{}' is no action", text_.substr(first, stop - first)),
                  "an action is a stage, a pass and a microbatch, such as 2F0");
    return fail(name_at, fmt::format("unknown action '{}'", name),
                "actions are F, I, W, B, R, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, OFFLOAD, RELOAD, OPT, "
                "SYNC, E, S, T, G");
  }

  bool microbatch(std::string_view name, std::size_t stop, Action& action) {
    if ((action.microbatch = number(stop, "microbatch")) == -2) return false;
    if (action.microbatch < 0)
      return fail(at_, fmt::format("{}{} names no microbatch", action.stage, name),
                  fmt::format("write it after the letter: {}{}0", action.stage, name));
    if (at_ >= stop || text_[at_] != '.') return true;
    ++at_;
    const std::int32_t split = number(stop, "sequence split");
    if (split == -2) return false;
    if (split < 0) return fail(at_, "a dot is followed by the number of a sequence split, such as 0F0.1");
    if (split > std::numeric_limits<std::int8_t>::max()) return fail(at_, fmt::format("sequence split {} is too large", split));
    action.split = static_cast<std::int8_t>(split);
    return true;
  }

  bool end(std::size_t stop) {
    if (at_ >= stop) return true;
    const std::string_view rest = text_.substr(at_, stop - at_);
    if (rest[0] == '@') return fail(at_, "attributes (@key=value) are not supported");
    return fail(at_, fmt::format("'{}' after the action {}", rest, to_text(actions_.back().action)),
                fmt::format("write {}", to_text(actions_.back().action)));
  }

  bool group() {
    const std::size_t close = text_.find(')');
    if (close == std::string_view::npos) return fail(0, "a group without its closing bracket", "write (0F1;3B0)OVERLAP_F_B");
    const std::size_t first_member = actions_.size();
    at_ = 1;
    while (true) {
      while (at_ < close && is_blank(text_[at_])) ++at_;
      std::size_t stop = text_.find(';', at_);
      if (stop == std::string_view::npos || stop > close) stop = close;
      std::size_t last = stop;
      while (last > at_ && is_blank(text_[last - 1])) --last;
      if (last == at_)
        return fail(at_, close == 1 ? "an empty group" : "an empty member of a group", "write (0F1;3B0)OVERLAP_F_B");
      if (text_[at_] == '(') return fail(at_, "a group inside a group");
      if (!simple(last) || !end(last)) return false;
      if (!actions_.back().action.is_compute())
        return fail(at_, fmt::format("{} in a group: only passes (F, I, W, B, R) overlap", to_text(actions_.back().action)));
      at_ = stop + 1;
      if (stop == close) break;
    }
    return group_kind(close + 1, first_member);
  }

  bool group_kind(std::size_t name_at, std::size_t first_member) {
    const std::string_view name = text_.substr(name_at);
    static constexpr std::array<GroupKind, 4> kGroups = {GroupKind::OverlapFB, GroupKind::OverlapFW, GroupKind::OverlapFF,
                                                         GroupKind::Overlap};
    GroupKind kind = GroupKind::None;
    for (const GroupKind candidate : kGroups)
      if (name_of(candidate) == name) kind = candidate;
    if (kind == GroupKind::None)
      return fail(name_at, name.empty() ? "a group without its kind" : fmt::format("unknown kind of group '{}'", name),
                  "groups are OVERLAP_F_B, OVERLAP_F_W, OVERLAP_F_F, OVERLAP");
    const std::size_t members = actions_.size() - first_member;
    if (members < 2) return fail(0, "a group of one action", fmt::format("write {}", to_text(actions_.back().action)));
    if (members > std::numeric_limits<std::uint8_t>::max()) return fail(0, "a group of more than 255 actions");
    for (std::size_t i = 0; i < members; ++i) {
      Action& member = actions_[first_member + i].action;
      member.group = kind;
      member.group_size = i == 0 ? static_cast<std::uint8_t>(members) : std::uint8_t{0};
    }
    return true;
  }

  std::string_view text_;
  std::vector<CellAction>& actions_;
  CellFault& fault_;
  std::size_t at_ = 0;
};

}  // namespace

bool parse_cell(std::string_view text, std::vector<CellAction>& actions, CellFault& fault) {
  return CellParser(text, actions, fault).run();
}

}  // namespace panpipe
