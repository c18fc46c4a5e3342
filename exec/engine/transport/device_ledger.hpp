// A list, for the watch, of the operations of a rank's device with devices of other ranks. A host runs ahead of its device. It
// may spin in a call that waits for the device while the device waits for another that never comes.
//
// The ranks' operations on one channel (one direction of a pair, a group) run in order, which is the same on all of them.
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
    std::string sentence;  // on one of them, for people: "rank 1 is stuck: its message to rank 0"; empty on the others
    std::string expects;   // the event that a waiting rank waits for: "a message from rank 1"
    // Set by the caller of NCCL: this rank's device has reached the operation; it is done; its error (empty if none).
    DeviceMark ready{}, landed{};
    std::function<std::string()> fault{};
    // Set by the ledger: its position in the channel, and when the device reached it.
    std::int64_t turn = 0;
    std::optional<Clock::time_point> stands_since{};
  };
  using OperationPtr = std::shared_ptr<Operation>;

  // Checks thirty times per deadline on a separate thread, so that a hanging operation is named before the wait for it gives up.
  // `failed` is called if an operation has failed and no rank was found lost since.
  DeviceLedger(c10::Device device, Watch& watch, Clock::duration deadline, std::function<void(const std::string&)> failed);
  ~DeviceLedger();

  // Adds an operation that the device has just received.
  OperationPtr add(Operation operation);
  // Called on the thread whose stream does the rank's work, before that stream is made to wait for the operation.
  void about_to_wait(const OperationPtr& operation);
  // True if the device is waiting for another one.
  bool device_waits();

 private:
  struct Wait {
    DeviceMark asked;  // the device has reached it
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
  std::optional<c10::Stream> stream_;  // the stream that does the rank's work
  std::string fault_;
  Clock::time_point fault_since_{};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace panpipe::exec
