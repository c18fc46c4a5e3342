// What a rank's device has under way with the devices of other ranks, for the watch. A host is ahead of its device: it may stand
// in a call that waits for the device, and spin there, while the device itself waits for another that never comes.
//
// Operations that the ranks give to one channel (one direction of a pair, a group) are done in order, and alike on all of them.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "exec/engine/transport/deadline_watch.hpp"
#include "exec/engine/transport/device_mark.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

class DeviceLedger {
 public:
  struct Operation {
    std::string channel;
    int members = 2;       // ranks that take part
    std::string sentence;  // of one of them, for people: "rank 1 is stuck: its message to rank 0"; empty on the others
    std::string expects;   // what a rank waits for that waits for it: "a message from rank 1"
    // By the caller of NCCL: this rank's device has come to it; it is done; why it failed (empty when it has not).
    DeviceMark ready{}, landed{};
    std::function<std::string()> fault{};
    // By the ledger: its place in the channel, and since when the device has stood at it.
    std::int64_t turn = 0;
    std::optional<Clock::time_point> stands_since{};
  };
  using OperationPtr = std::shared_ptr<Operation>;

  // Looks thirty times a deadline, on a thread of its own: what hangs is named before the wait for it gives up. `failed`: an
  // operation has failed, and nobody was found lost since.
  DeviceLedger(c10::Device device, Watch& watch, Clock::duration deadline, std::function<void(const std::string&)> failed);
  ~DeviceLedger();

  // An operation that the device has just been given.
  OperationPtr add(Operation operation);
  // On the thread whose stream does the rank's work, before that stream is made to wait for it.
  void about_to_wait(const OperationPtr& operation);
  // Does the device stand still because of another?
  bool device_waits();

 private:
  struct Wait {
    DeviceMark asked;  // the device has come to it
    OperationPtr operation;
  };
  const Operation* awaited();
  void look();
  void watch_over();

  c10::Device device_;
  Watch& watch_;
  Clock::duration slice_;
  std::function<void(const std::string&)> failed_;
  std::mutex lock_;
  std::map<std::string, std::deque<OperationPtr>> under_way_;  // by channel
  std::map<std::string, std::int64_t> turns_;
  std::deque<Wait> waits_;
  std::optional<c10::Stream> stream_;  // that does the rank's work
  std::string fault_;
  Clock::time_point fault_since_{};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace panpipe::exec
