// The schedule families that `--method auto` searches, each with what closed forms must know of its order.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace panpipe::planner {

constexpr int kMaxChunks = 16;  // stages on one rank

enum class StagePlacement : std::uint8_t {
  Line,   // a stage on each rank
  Loop,   // stage s on rank s mod p
  Vee,    // two stages a rank: r and 2p-1-r
  Opaque  // anything else: only what holds for every order is known
};

struct RankPlace {
  int rank = 0, ranks = 1, chunks = 1, microbatches = 1;
};

// A moment of a rank's order in which much memory is taken: whole activations of each of its stages, weight gradients still
// to be made after their input gradient, and which stage then runs a forward and the backward after it (-1 = none).
struct Moment {
  std::array<std::int32_t, kMaxChunks> held{};
  std::int32_t weights = 0;
  std::int32_t forward = -1, backward = -1;
};

struct FamilyForm {
  std::string_view name;
  StagePlacement placement = StagePlacement::Line;
  bool split = false;       // input and weight gradients apart
  bool woven = false;       // groups that hide collectives
  bool own_chunks = false;  // stages per rank are the family's own number, no option
  bool (*exists)(int ranks, int chunks, int microbatches) = nullptr;
  // Fullest moments of a rank, at most kMaxMoments; each really occurs.
  int (*moments)(const RankPlace& place, Moment* out) = nullptr;
  // Weight gradients that stand behind the rank's last input gradient, at most.
  int (*weights_after)(const RankPlace& place) = nullptr;
  bool last = false;  // tried last, on the degrees of the best plans: nothing is known of its order before it is made

  bool open_chunks() const { return placement != StagePlacement::Opaque && placement != StagePlacement::Line && !own_chunks; }
};
constexpr int kMaxMoments = 4;

const std::vector<FamilyForm>& forms();
int form_named(std::string_view name);  // -1 = none

}  // namespace panpipe::planner
