#include "costmodel/memory/caching_allocator.hpp"

#include <algorithm>
#include <iterator>

namespace panpipe {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// AllocatorConfig.h of PyTorch 2.11.
constexpr std::int64_t kLeastBlock = 512;            // sizes are multiples of it
constexpr std::int64_t kSmall = kMiB;                // the largest block of the small pool
constexpr std::int64_t kSmallSegment = 2 * kMiB;     // of the small pool
constexpr std::int64_t kLargeSegment = 20 * kMiB;    // for blocks from 1 to 10 MiB; a page of expandable segments
constexpr std::int64_t kOwnSegment = 10 * kMiB;      // from here on a segment is as large as its first block,
constexpr std::int64_t kSegmentMultiple = 2 * kMiB;  // in multiples of this

std::int64_t up_to_multiple(std::int64_t bytes, std::int64_t of) { return (bytes + of - 1) / of * of; }

// Addresses of segments lie so far apart that blocks of two never touch.
constexpr std::int64_t kGap = kSegmentMultiple;

std::int64_t segment_for(std::int64_t size) {
  if (size <= kSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : up_to_multiple(size, kSegmentMultiple);
}

std::int64_t page_of(bool small) { return small ? kSmallSegment : kLargeSegment; }

}  // namespace

CachingAllocator::CachingAllocator(bool expandable, std::int64_t capacity)
    : expandable_(expandable), capacity_(capacity), next_address_(kGap) {}

std::optional<CachingAllocator::Address> CachingAllocator::allocate(std::int64_t bytes, int stream) {
  if (bytes == 0) return 0;
  const std::int64_t size = up_to_multiple(bytes, kLeastBlock);
  const Wanted wanted{size, stream, size <= kSmall ? small_ : large_};
  Blocks::iterator block = find_unused(wanted);
  if (block == blocks_.end()) {
    block = take_new(wanted);
    if (block == blocks_.end()) {
      release_unused();
      ++retries_;
      block = take_new(wanted);
    }
    if (block == blocks_.end()) return std::nullopt;
  }
  if (splits(block->second, size, wanted.pool.small)) {
    const Blocks::iterator rest = cut(block, size);
    rest->second.state = State::Free;
    hold(rest);
  }
  block->second.state = State::Allocated;
  allocated_ += block->second.size;
  note(AllocatorAction::Allocate, block->second, block->first, block->second.size);
  return block->first;
}

void CachingAllocator::free(Address address) {
  if (address == 0) return;
  Blocks::iterator block = blocks_.find(address);
  allocated_ -= block->second.size;
  note(AllocatorAction::Free, block->second, address, block->second.size);
  block->second.state = State::Free;
  hold(merge(block));
}

void CachingAllocator::release_unused() {
  release_pool(large_);
  release_pool(small_);
}

CachingAllocator::Blocks::iterator CachingAllocator::before(Blocks::iterator block) {
  if (block == blocks_.begin()) return blocks_.end();
  const Blocks::iterator other = std::prev(block);
  return other->second.segment == block->second.segment ? other : blocks_.end();
}

CachingAllocator::Blocks::iterator CachingAllocator::behind(Blocks::iterator block) {
  const Blocks::iterator other = std::next(block);
  return other != blocks_.end() && other->second.segment == block->second.segment ? other : blocks_.end();
}

void CachingAllocator::hold(Blocks::iterator block) {
  Pool& pool = pool_of(block->second);
  const int stream = stream_of(block->second);
  if (block->second.state == State::Unmapped) {
    pool.unmapped.emplace(stream, block->first);
    return;
  }
  pool.unused.emplace(stream, block->second.size, block->first);
}

void CachingAllocator::unhold(Blocks::iterator block) {
  Pool& pool = pool_of(block->second);
  const int stream = stream_of(block->second);
  if (block->second.state == State::Unmapped)
    pool.unmapped.erase({stream, block->first});
  else
    pool.unused.erase({stream, block->second.size, block->first});
}

// With neighbours of the same state, which are held; the block itself is not.
CachingAllocator::Blocks::iterator CachingAllocator::merge(Blocks::iterator block) {
  const Blocks::iterator first = before(block), last = behind(block);
  if (last != blocks_.end() && last->second.state == block->second.state) {
    unhold(last);
    block->second.size += last->second.size;
    blocks_.erase(last);
  }
  if (first != blocks_.end() && first->second.state == block->second.state) {
    unhold(first);
    first->second.size += block->second.size;
    blocks_.erase(block);
    return first;
  }
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::cut(Blocks::iterator block, std::int64_t size) {
  Block rest = block->second;
  rest.size -= size;
  block->second.size = size;
  return blocks_.emplace(block->first + size, rest).first;
}

bool CachingAllocator::splits(const Block& block, std::int64_t size, bool small) const {
  const std::int64_t rest = block.size - size;
  return small || expandable_ ? rest >= kLeastBlock : rest > kSmall;
}

// The smallest unused block that is large enough; of an expandable segment's end, what it could grow to counts as its size.
CachingAllocator::Blocks::iterator CachingAllocator::find_unused(const Wanted& wanted) {
  Pool& pool = wanted.pool;
  auto found = pool.unused.lower_bound({wanted.stream, wanted.size, 0});
  const auto is_ours = [&](const auto& entry) { return entry != pool.unused.end() && std::get<0>(*entry) == wanted.stream; };
  if (!is_ours(found)) return blocks_.end();
  if (expandable_) {
    const auto reach = [&](const auto& entry) {
      const Blocks::iterator block = blocks_.find(std::get<2>(*entry)), next = behind(block);
      return block->second.size + (next != blocks_.end() && next->second.state == State::Unmapped ? next->second.size : 0);
    };
    for (auto next = std::next(found); is_ours(next) && reach(next) < reach(found); ++next) found = next;
  }
  const Blocks::iterator block = blocks_.find(std::get<2>(*found));
  unhold(block);
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::begin_segment(const Wanted& wanted, std::int64_t size, State state,
                                                                   std::int64_t span) {
  const Address address = next_address_;
  segments_.push_back({wanted.stream, wanted.pool.small, address});
  next_address_ += span + kGap;
  return blocks_.emplace(address, Block{size, static_cast<int>(segments_.size()) - 1, state}).first;
}

CachingAllocator::Blocks::iterator CachingAllocator::take_segment(const Wanted& wanted) {
  const std::int64_t size = segment_for(wanted.size);
  if (!fits_card(size)) return blocks_.end();
  reserve(size);
  const Blocks::iterator block = begin_segment(wanted, size, State::Free, size);
  note(AllocatorAction::TakeSegment, block->second, block->first, size);
  return block;
}

void CachingAllocator::note(AllocatorAction action, const Block& block, Address address, std::int64_t size) {
  if (events_ != nullptr) events_->push_back({action, address, size, stream_of(block)});
}

void CachingAllocator::reserve(std::int64_t bytes) {
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

// The lowest unmapped address of the stream, from the unused block before it on, where there is room.
CachingAllocator::Blocks::iterator CachingAllocator::find_expandable(const Wanted& wanted) {
  const auto has_room = [&](Blocks::iterator block) {
    std::int64_t room = 0;
    for (; room < wanted.size && block != blocks_.end() && block->second.state != State::Allocated; block = behind(block))
      room += block->second.size;
    return room >= wanted.size;
  };
  const auto& unmapped = wanted.pool.unmapped;
  for (auto entry = unmapped.lower_bound({wanted.stream, 0}); entry != unmapped.end() && entry->first == wanted.stream; ++entry) {
    Blocks::iterator block = blocks_.find(entry->second);
    const Blocks::iterator first = before(block);
    if (first != blocks_.end() && first->second.state != State::Allocated) block = first;
    if (has_room(block)) return block;
  }
  // Address space for an eighth more than the card has.
  const std::int64_t span = up_to_multiple(capacity_ + capacity_ / 8, page_of(wanted.pool.small));
  const Blocks::iterator block = begin_segment(wanted, span, State::Unmapped, span);
  hold(block);
  return block;
}

// Of an unmapped block as many whole pages as hold `size`, merged with what is unused next to them; end() where the card is full.
CachingAllocator::Blocks::iterator CachingAllocator::map(Blocks::iterator block, std::int64_t size) {
  const std::int64_t mapped = up_to_multiple(size, page_of(pool_of(block->second).small));
  if (!fits_card(mapped)) return blocks_.end();
  unhold(block);
  if (mapped < block->second.size) hold(cut(block, mapped));
  block->second.state = State::Free;
  reserve(mapped);
  note(AllocatorAction::MapPages, block->second, block->first, mapped);
  const Blocks::iterator merged = merge(block);
  hold(merged);
  return merged;
}

CachingAllocator::Blocks::iterator CachingAllocator::expand(const Wanted& wanted) {
  Blocks::iterator block = find_expandable(wanted);
  if (block->second.state == State::Unmapped) block = map(block, std::min(block->second.size, wanted.size));
  while (block != blocks_.end() && block->second.size < wanted.size) {
    const Blocks::iterator next = behind(block);
    block = map(next, std::min(next->second.size, wanted.size - block->second.size));
  }
  if (block != blocks_.end()) unhold(block);
  return block;
}

// Gives the whole pages of an unused block back; it is held.
void CachingAllocator::unmap(Blocks::iterator block) {
  const std::int64_t page = page_of(pool_of(block->second).small);
  const std::int64_t offset = block->first - segments_[static_cast<std::size_t>(block->second.segment)].begin;
  const std::int64_t end = offset + block->second.size;
  const std::int64_t from = up_to_multiple(offset, page), to = end / page * page;
  if (from >= to) return;
  unhold(block);
  if (from > offset) {
    const Blocks::iterator rest = cut(block, from - offset);
    hold(block);
    block = rest;
  }
  if (end > to) hold(cut(block, to - from));
  block->second.state = State::Unmapped;
  reserved_ -= to - from;
  note(AllocatorAction::UnmapPages, block->second, block->first, to - from);
  block = merge(block);
  hold(block);
  if (!is_split(block)) {
    unhold(block);
    blocks_.erase(block);
  }
}

void CachingAllocator::release_segment(Blocks::iterator block) {
  reserved_ -= block->second.size;
  note(AllocatorAction::GiveSegment, block->second, block->first, block->second.size);
  unhold(block);
  blocks_.erase(block);
}

void CachingAllocator::release_pool(Pool& pool) {
  std::vector<Address> unused;
  for (const auto& [stream, size, address] : pool.unused) unused.push_back(address);
  for (const Address address : unused) {
    const Blocks::iterator block = blocks_.find(address);
    if (expandable_)
      unmap(block);
    else if (!is_split(block))
      release_segment(block);
  }
}

std::vector<AllocatorSegment> CachingAllocator::segments() const {
  std::vector<AllocatorSegment> segments;
  int current = -1;
  for (const auto& [address, block] : blocks_) {
    if (block.state == State::Unmapped) {
      current = -1;
      continue;
    }
    const Segment& of = segments_[static_cast<std::size_t>(block.segment)];
    if (block.segment != current) segments.push_back({address, 0, of.stream, of.small, expandable_, {}});
    current = block.segment;
    segments.back().size += block.size;
    segments.back().blocks.push_back({address, block.size, block.state == State::Allocated});
  }
  return segments;
}

}  // namespace panpipe
