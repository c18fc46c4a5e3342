// Numbers of ranks, stages, tasks, ... are signed (-1 is none); containers are indexed with std::size_t.
#pragma once

#include <cstddef>
#include <type_traits>

namespace panpipe {

// `index` as the position in a container; not negative.
template <typename Index>
requires std::is_integral_v<Index> || std::is_enum_v<Index>
constexpr std::size_t at(Index index) { return static_cast<std::size_t>(index); }

}  // namespace panpipe
