// The groups of ranks over which a collective runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace panpipe {

// Inside passes: a tensor-parallel group, a context-parallel group, the ranks that divide the experts. As separate tasks: all
// ranks with the same weights, a shard group, the ranks with the same shard, the ranks with the same experts.
enum class Among : std::uint8_t { Tensor, Context, Expert, Data, ShardGroup, Holders, ExpertData };
constexpr std::array kAmongAll = {Among::Tensor,     Among::Context, Among::Expert,    Among::Data,
                                  Among::ShardGroup, Among::Holders, Among::ExpertData};
constexpr std::size_t kAmong = kAmongAll.size();
constexpr Among kAmongInPasses[] = {Among::Tensor, Among::Context, Among::Expert};
constexpr std::size_t kAmongPasses = 3;
constexpr std::size_t index_of(Among among) { return static_cast<std::size_t>(among); }

constexpr std::string_view name_of(Among among) {
  constexpr std::string_view kNames[kAmong] = {"tensor", "context", "expert", "data", "shard group", "holders", "expert data"};
  return kNames[index_of(among)];
}

}  // namespace panpipe
