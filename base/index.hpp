// Numbers of ranks, stages, tasks and so on are signed (-1 means none), and subscripts take them as they are.
#pragma once

#include <cstddef>
#include <type_traits>

namespace panpipe {

// For enumerations that index a container, and for sums and products of positions in std::size_t. Must not be negative.
template <typename Index>
requires std::is_integral_v<Index> || std::is_enum_v<Index>
constexpr std::size_t at(Index index) { return static_cast<std::size_t>(index); }

}  // namespace panpipe
