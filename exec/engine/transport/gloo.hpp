// The transport over Gloo. The NCCL transport extends it and uses it for tensors that are not on a GPU.
#pragma once

#include "exec/engine/transport/gloo_group.hpp"
#include "exec/engine/transport/gloo_links.hpp"
#include "exec/engine/transport/mail_transport.hpp"
#include "exec/engine/transport/rendezvous.hpp"

namespace panpipe::exec {

class GlooTransport : public MailTransport {
 public:
  explicit GlooTransport(const ProcessOptions& options);
  ~GlooTransport() override;

  int rank() const override { return options_.world.rank; }
  int size() const override { return options_.world.size; }
  int local_rank() const override { return options_.world.local_rank; }
  int local_size() const override { return options_.world.local_size; }
  const char* name() const override { return "gloo"; }
  Group make_group(const std::vector<int>& ranks) override;
  PendingPtr all_reduce(at::Tensor value, const Group& group) override { return connected_.at(group.id).all_reduce(value); }
  PendingPtr broadcast(at::Tensor value, int root, const Group& group) override {
    return connected_.at(group.id).broadcast(value, root);
  }
  using MailTransport::all_gather;
  PendingPtr all_gather(at::Tensor whole, const Group& group) override { return connected_.at(group.id).all_gather(whole); }
  PendingPtr reduce_scatter(at::Tensor whole, const Group& group) override {
    return connected_.at(group.id).reduce_scatter(whole);
  }
  void abort(const std::string& reason) noexcept override;
  void refuse(const InputError& error) noexcept override;
  void leave(Clock::duration deadline, const std::string& what) override;

 protected:
  PendingPtr post(const at::Tensor& value, int to, Channel channel, std::uint32_t tag) override;
  // Returns when all members have arrived. Connecting cannot be interrupted and would look like a stuck rank; this wait avoids
  // both.
  void await_members(const std::vector<int>& ranks);
  // A new connection to the store of the rendezvous. A connection answers one query at a time, so a thread that waits on a
  // shared one for another rank's entry could block the entry that rank waits for.
  c10::intrusive_ptr<c10d::Store> store() const;
  Watch& watch() { return *rendezvous_.watch; }

 private:
  ProcessOptions options_;
  Rendezvous rendezvous_;
  std::unique_ptr<GlooLinks> links_;
  std::map<int, GlooGroup> connected_;  // by group id, if this rank is a member
};

}  // namespace panpipe::exec
