// The collectives of a group of ranks over Gloo: on CPU tensors of types that it sums, to which others are copied.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "exec/engine/transport/mailbox.hpp"

namespace c10d {
class ProcessGroupGloo;
}

namespace panpipe::exec {

class GlooGroup {
 public:
  // `own`: this rank's index in the group.
  GlooGroup(c10::intrusive_ptr<c10d::ProcessGroupGloo> connected, Group group, std::size_t own, std::shared_ptr<Mailbox> mailbox);
  GlooGroup(GlooGroup&&);
  ~GlooGroup();

  // As in Transport. An empty tensor needs no collective.
  PendingPtr all_reduce(const at::Tensor& value) const;
  PendingPtr broadcast(const at::Tensor& value, int root) const;
  PendingPtr all_gather(const at::Tensor& whole) const;
  PendingPtr reduce_scatter(const at::Tensor& whole) const;

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> connected_;
  Group group_;
  std::size_t own_;
  std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace panpipe::exec
