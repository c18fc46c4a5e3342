// Numbers of ranks, stages, tasks and so on are signed (-1 means none); containers are indexed with std::size_t.
#pragma once

#include <cstddef>
#include <type_traits>

namespace panpipe {

// Converts `index` to a position in a container. It must not be negative.
template <typename Index>
requires std::is_integral_v<Index> || std::is_enum_v<Index>
constexpr std::size_t at(Index index) { return static_cast<std::size_t>(index); }

}  // namespace panpipe
