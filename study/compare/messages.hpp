// Hand-overs between stages, derived from a timeline's spans: the transfer that brought a pass its input, and the send that
// belongs to a receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe::study {

// O(n log n) to make, O(log n) per query as long as few transfers of one message end at one time. The timeline must outlive it.
class Messages {
 public:
  explicit Messages(const Timeline& timeline);

  // The transfer that brought the last input of a pass (a forward's activations, a backward's gradients), among those that ended
  // by `until`. nullptr if no input came from another device.
  const Span* last_input(const Span& pass, double until = std::numeric_limits<double>::infinity()) const;
  // The other end of a transfer: on another device, with the same microbatch, slice, direction and size, the nearest in time.
  const Span* sender_of(const Span& receive) const { return nearest(sends_, receive); }
  const Span* receiver_of(const Span& send) const { return nearest(receives_, send); }

 private:
  using Input = std::tuple<std::int32_t, bool, std::int32_t, std::int32_t, int>;  // (device, forward, stage, microbatch, slice)
  using Message = std::tuple<bool, std::int32_t, int, std::int64_t>;              // (forward, microbatch, slice, bytes)
  struct End {
    double at = 0;
    std::size_t order = 0;  // in the timeline
    const Span* span = nullptr;
  };
  using Ends = std::map<Message, std::vector<End>>;  // by (at, order)

  static Message message_of(const Span& span);
  static const Span* nearest(const Ends& ends, const Span& span);

  std::map<Input, std::vector<const Span*>> inputs_;
  Ends sends_, receives_;
};

}  // namespace panpipe::study
