// What PyTorch's caching allocator reserves of a card for a sequence of allocations and frees, by the rules that its
// documentation (docs.pytorch.org/docs/stable/notes/cuda.html, Memory management) and c10/cuda/CUDACachingAllocator.cpp of
// release 2.11 state; stand_in/allocator holds it to that allocator, byte by byte. Sizes are bytes of one device, streams are
// numbers that the caller gives; no memory is touched.
//
// Left out: blocks that several streams use (a caller frees such a block when the last use has ended), private pools of CUDA
// graphs, and the settings of PYTORCH_CUDA_ALLOC_CONF but for expandable_segments: no scenario states them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "costmodel/memory/allocator_history.hpp"

namespace panpipe {

class CachingAllocator {
 public:
  using Address = std::int64_t;

  // `expandable`: expandable_segments:True. `capacity`: bytes of the card that segments can take.
  CachingAllocator(bool expandable, std::int64_t capacity);

  // None where the card is full. A block of 0 bytes takes nothing; its address is 0.
  std::optional<Address> allocate(std::int64_t bytes, int stream = 0);
  // Of an address that `allocate` returned.
  void free(Address address);
  // torch.cuda.empty_cache()
  void release_unused();

  std::int64_t allocated() const { return allocated_; }  // torch.cuda.memory_allocated()
  std::int64_t reserved() const { return reserved_; }    // torch.cuda.memory_reserved()
  std::int64_t peak_reserved() const { return peak_reserved_; }
  int retries() const { return retries_; }  // how often unused segments were given back because the card was full

  // Appends what happens from now on to `events`, which must outlive the allocator; null: records nothing.
  void record(std::vector<AllocatorEvent>* events) { events_ = events; }
  std::vector<AllocatorSegment> segments() const;  // by address

 private:
  enum class State { Allocated, Free, Unmapped };
  struct Block {
    std::int64_t size = 0;
    int segment = 0;
    State state = State::Free;
  };
  using Blocks = std::map<Address, Block>;
  using ByFit = std::set<std::tuple<int, std::int64_t, Address>>;  // stream, size, address
  using ByAddress = std::set<std::pair<int, Address>>;             // stream, address
  struct Pool {
    bool small = false;
    ByFit unused;
    ByAddress unmapped;
  };
  struct Segment {
    int stream = 0;
    bool small = false;
    Address begin = 0;
  };
  struct Wanted {
    std::int64_t size = 0;  // rounded
    int stream = 0;
    Pool& pool;
  };

  Pool& pool_of(const Block& block) { return segments_[static_cast<std::size_t>(block.segment)].small ? small_ : large_; }
  int stream_of(const Block& block) const { return segments_[static_cast<std::size_t>(block.segment)].stream; }
  Blocks::iterator before(Blocks::iterator block);  // end() where the segment begins
  Blocks::iterator behind(Blocks::iterator block);  // end() where it ends
  bool is_split(Blocks::iterator block) { return before(block) != blocks_.end() || behind(block) != blocks_.end(); }

  Blocks::iterator find_unused(const Wanted& wanted);
  Blocks::iterator take_new(const Wanted& wanted) { return expandable_ ? expand(wanted) : take_segment(wanted); }
  Blocks::iterator take_segment(const Wanted& wanted);
  Blocks::iterator expand(const Wanted& wanted);
  Blocks::iterator find_expandable(const Wanted& wanted);
  Blocks::iterator map(Blocks::iterator block, std::int64_t size);
  void unmap(Blocks::iterator block);
  Blocks::iterator begin_segment(const Wanted& wanted, std::int64_t size, State state, std::int64_t span);
  void hold(Blocks::iterator block);    // into the pool's index
  void unhold(Blocks::iterator block);  // out of it
  Blocks::iterator merge(Blocks::iterator block);
  Blocks::iterator cut(Blocks::iterator block, std::int64_t size);  // the rest, which is not held
  bool splits(const Block& block, std::int64_t size, bool small) const;
  bool fits_card(std::int64_t bytes) const { return reserved_ + bytes <= capacity_; }
  void release_pool(Pool& pool);
  void release_segment(Blocks::iterator block);
  void reserve(std::int64_t bytes);
  void note(AllocatorAction action, const Block& block, Address address, std::int64_t size);

  bool expandable_;
  std::int64_t capacity_;
  Blocks blocks_;
  Pool small_{true, {}, {}}, large_{};
  std::vector<Segment> segments_;
  Address next_address_;
  std::int64_t allocated_ = 0, reserved_ = 0, peak_reserved_ = 0;
  int retries_ = 0;
  std::vector<AllocatorEvent>* events_ = nullptr;
};

}  // namespace panpipe
