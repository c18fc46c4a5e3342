// Numbers made of numbers and texts, unrelated where those are neighbours.
#pragma once

#include <cstdint>
#include <string_view>

namespace panpipe::exec {

// One round of SplitMix64: Steele, Lea, Flood, OOPSLA 2014.
inline std::uint64_t mixed_bits(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// FNV-1a, 64 bits: distinguishes texts; it need not withstand texts made to collide.
inline std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace panpipe::exec
