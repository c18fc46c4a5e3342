// Messages between processes over Gloo, one link per peer: a sent message arrives in the mailbox of the other side, whether its
// receive is posted or not.
//
// Gloo ends the process if a message is larger than the waiting buffer, and its waits block. Every message therefore starts with
// a header of fixed size that states tag, type and shape (small tensors are included in it), and the receiver makes room for the
// announced data. Two threads per peer do the waiting: one receives, one holds sent tensors until they are gone.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>

#include "exec/engine/transport/mailbox.hpp"

namespace c10d {
class Store;
class ProcessGroupGloo;
}  // namespace c10d

namespace panpipe::exec {

// The time limit of Gloo's operations: the watch ends waits, not Gloo.
inline constexpr std::chrono::milliseconds kNever = std::chrono::hours(24 * 365);

// A process group over all or some of the ranks. `name` is unique in the store. `rank` and `size` count within the group.
c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                                           int rank, int size, const std::string& address,
                                                           Clock::duration deadline);

// Bytes of a contiguous CPU tensor, in its memory, which they keep alive.
at::Tensor bytes_of(const at::Tensor& value, std::int64_t offset, std::int64_t count);

class GlooLinks {
 public:
  GlooLinks(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, int rank, int size, Mailbox& mailbox, FailureDetector& detector);
  ~GlooLinks();  // waits briefly for messages still being sent

  // Posts the message; the flag is set when `value` may be reused. CPU tensors only.
  std::shared_ptr<Mailbox::Flag> send(const at::Tensor& value, int to, Channel channel, std::uint32_t tag);

 private:
  struct Link;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace panpipe::exec
