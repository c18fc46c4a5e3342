// What all transports share: messages that go from mailbox to mailbox, and what is made of messages.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/engine/transport/mailbox.hpp"

namespace panpipe::exec {

class MailTransport : public Transport {
 public:
  PendingPtr send(at::Tensor value, int to, std::uint32_t tag) override { return post(value, to, Channel::User, tag); }
  PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) override {
    return take(expected, {from, Channel::User, tag});
  }
  // The same group for the same ranks.
  Group make_group(const std::vector<int>& ranks) override;
  PendingPtr all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                        const Group& group) override;
  using Transport::all_gather;
  std::vector<std::string> all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) override;
  void barrier(Clock::duration deadline, const std::string& what) override { all_gather("", deadline, what); }
  void settle(at::Device device, Clock::duration deadline, const std::string& what) override;
  void set_action(const std::string& action) override;

 protected:
  MailTransport() : mailbox_(std::make_shared<Mailbox>()) {}
  // Before the first wait.
  void watch_with(FailureDetector& detector) {
    detector_ = &detector;
    mailbox_->watch_with(detector);
  }

  // Sends a tensor into the mailbox of another rank.
  virtual PendingPtr post(const at::Tensor& value, int to, Channel channel, std::uint32_t tag) = 0;
  // What is under way to this rank's mailbox.
  PendingPtr take(const TensorSpec& expected, const Mailbox::Key& key) const;
  // True if this rank's device is waiting for another's. Its host's processor time is then no progress.
  virtual bool device_waits() { return false; }

  const std::shared_ptr<Mailbox> mailbox_;

 private:
  FailureDetector* detector_ = nullptr;
  std::map<std::vector<int>, Group> groups_;
  std::map<int, std::uint32_t> exchanges_;  // by group id
  std::uint32_t gathers_ = 0;
};

}  // namespace panpipe::exec
