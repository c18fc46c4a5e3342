// The transport over Gloo. The NCCL transport extends it and uses it for tensors that are not on a GPU.
#pragma once

#include "exec/engine/transport/common_end.hpp"
#include "exec/engine/transport/gloo_group.hpp"
#include "exec/engine/transport/gloo_links.hpp"
#include "exec/engine/transport/rendezvous.hpp"

namespace panpipe::exec {

class GlooTransport : public Transport, public Ending {
 public:
  explicit GlooTransport(const ProcessOptions& options);
  ~GlooTransport() override;

  int rank() const override { return options_.world.rank; }
  int size() const override { return options_.world.size; }
  int local_rank() const override { return options_.world.local_rank; }
  int local_size() const override { return options_.world.local_size; }
  const char* name() const override { return "gloo"; }
  PendingPtr send(at::Tensor value, int to, std::uint32_t tag) override;
  PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) override;
  Group make_group(const std::vector<int>& ranks) override;
  PendingPtr all_reduce(at::Tensor value, const Group& group) override { return connected_.at(group.id).all_reduce(value); }
  PendingPtr broadcast(at::Tensor value, int root, const Group& group) override {
    return connected_.at(group.id).broadcast(value, root);
  }
  PendingPtr all_gather(at::Tensor whole, const Group& group) override { return connected_.at(group.id).all_gather(whole); }
  PendingPtr reduce_scatter(at::Tensor whole, const Group& group) override {
    return connected_.at(group.id).reduce_scatter(whole);
  }
  PendingPtr all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                        const Group& group) override;
  void barrier(Clock::duration deadline, const std::string& what) override;
  void settle(at::Device device, Clock::duration deadline, const std::string& what) override;
  std::vector<std::string> all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) override;
  void set_action(const std::string& action) override;
  void abort(const std::string& reason) noexcept override;
  void refuse(const InputError& error) noexcept override;
  void leave(Clock::duration deadline, const std::string& what) override;

  // For derived transports.
  // Returns when all members have arrived. Connecting cannot be interrupted and would look like a stuck rank; this wait avoids
  // both.
  void await_members(const std::vector<int>& ranks);
  void announce(const at::Tensor& words, int to, std::uint32_t turn) { links_->send(words, to, Channel::Announced, turn); }
  // A new connection to the store of the rendezvous. A connection answers one query at a time, so a thread that waits on a
  // shared one for another rank's entry could block the entry that rank waits for.
  c10::intrusive_ptr<c10d::Store> store() const;
  // True if this rank's device is waiting for another's. Its host's processor time is then no progress.
  virtual bool device_waits() { return false; }
  Mailbox& mailbox() { return *mailbox_; }
  Watch& watch() { return *rendezvous_.watch; }

 private:
  PendingPtr give(const at::Tensor& value, int to, Channel channel, std::uint32_t tag);
  PendingPtr take(const TensorSpec& expected, int from, Channel channel, std::uint32_t tag);

  ProcessOptions options_;
  std::shared_ptr<Mailbox> mailbox_;
  Rendezvous rendezvous_;
  std::unique_ptr<GlooLinks> links_;
  std::map<std::vector<int>, Group> groups_;
  std::map<int, GlooGroup> connected_;      // by group id, if this rank is a member
  std::map<int, std::uint32_t> exchanges_;  // by group id
  std::uint32_t gathers_ = 0;
};

}  // namespace panpipe::exec
