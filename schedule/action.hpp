// One entry of a schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace panpipe {

enum class ActionKind : std::uint8_t {
  F,
  I,
  W,
  B,
  R,  // forward, input gradient, weight gradient, full backward, recompute
  SendF,
  RecvF,
  SendB,
  RecvB,  // stage = owner of the operation
  Unshard,
  Reshard,
  ReduceGrad,  // no microbatch
  Offload,
  Reload,  // stage + microbatch
  Opt,
  Sync,  // no stage
  E,
  S,
  T,
  G,  // a rank's share of the vocabulary: embedding, head forward, head backward, embedding's gradient; stage = the rank's first
};
constexpr std::size_t kActionKinds = static_cast<std::size_t>(ActionKind::G) + 1;

constexpr bool starts_backward(ActionKind kind) { return kind == ActionKind::B || kind == ActionKind::I; }
constexpr bool is_send(ActionKind kind) { return kind == ActionKind::SendF || kind == ActionKind::SendB; }
constexpr bool is_receive(ActionKind kind) { return kind == ActionKind::RecvF || kind == ActionKind::RecvB; }
// Between a device and its host.
constexpr bool is_copy(ActionKind kind) { return kind == ActionKind::Offload || kind == ActionKind::Reload; }

// How a bracketed run of actions overlaps: "(0F1;3B0)OVERLAP_F_B". PyTorch defines OverlapFB; the others are ours.
enum class GroupKind : std::uint8_t { None, OverlapFB, OverlapFW, OverlapFF, Overlap };

// Plain data, 12 bytes. Members of a group are consecutive. The first has group_size > 1 and the group's kind; the others have
// group_size 0 and the same kind. A lone action has group_size 1 and GroupKind::None.
struct Action {
  ActionKind kind{};
  GroupKind group = GroupKind::None;
  std::uint8_t group_size = 1;
  std::int8_t split = -1;  // sequence split, -1 = none ("0F0.1")
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;

  bool operator==(const Action&) const = default;
  std::size_t cell_size() const { return group_size > 1 ? group_size : 1; }              // actions of the cell that starts here
  bool is_compute() const { return kind <= ActionKind::R; }                              // a pass of a stage
  bool is_vocabulary() const { return kind >= ActionKind::E && kind <= ActionKind::G; }  // a pass of a share of the vocabulary
};

std::string_view name_of(ActionKind kind);   // "F", "SEND_F", "REDUCE_GRAD", ...
std::string_view name_of(GroupKind kind);    // "OVERLAP_F_B", ...
std::string to_text(const Action& action);   // one member, without the group's brackets: "2F0", "2SEND_F0", "0F0.1"
std::string cell_text(const Action* first);  // the whole cell that starts with `first`: "2F0", "(0F1;3B0)OVERLAP_F_B"

}  // namespace panpipe
