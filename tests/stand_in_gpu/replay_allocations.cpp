// Replays allocations from standard input with our caching allocator; stand_in/allocator compares what it prints with PyTorch's.
//   card BYTES SETTINGS      an empty card; SETTINGS: expandable_segments:True, or -
//   a ID BYTES STREAM        allocates block ID
//   f ID                     frees it
//   e                        gives unused segments back
// After each of the last three: bytes allocated and reserved; `none` before them where the card is full.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <unordered_map>

#include "costmodel/memory/caching_allocator.hpp"

namespace {

using panpipe::CachingAllocator;

struct Card {
  CachingAllocator allocator;
  std::unordered_map<long, CachingAllocator::Address> blocks = {};
};

int replay() {
  std::optional<Card> card;
  std::string what, settings, answer;
  std::chrono::nanoseconds spent{0};
  long operations = 0, id = 0, bytes = 0;
  int stream = 0;
  while (std::cin >> what) {
    if (what == "card") {
      std::cin >> bytes >> settings;
      card.emplace(Card{CachingAllocator(settings == "expandable_segments:True", bytes)});
      continue;
    }
    if (what == "a") std::cin >> id >> bytes >> stream;
    if (what == "f") std::cin >> id;
    if (!card || !std::cin) return 2;
    std::optional<CachingAllocator::Address> block = 0;
    const auto begin = std::chrono::steady_clock::now();
    if (what == "a")
      block = card->allocator.allocate(bytes, stream);
    else if (what == "f")
      card->allocator.free(card->blocks.at(id));
    else
      card->allocator.release_unused();
    spent += std::chrono::steady_clock::now() - begin;
    ++operations;
    if (what == "a" && block) card->blocks[id] = *block;
    answer += (block ? "" : "none ") + std::to_string(card->allocator.allocated()) + ' ' +
              std::to_string(card->allocator.reserved()) + '\n';
  }
  std::fputs(answer.c_str(), stdout);
  std::fprintf(stderr, "%ld operations, %.0f ns each\n", operations,
               operations ? static_cast<double>(spent.count()) / static_cast<double>(operations) : 0.0);
  return 0;
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  return replay();
}
