#include "exec/engine/transport/device_ledger.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
// A lost peer breaks operations too; the watch, which reports the cause better, gets this long to report it.
constexpr Clock::duration kLossFirst = 1s;

}  // namespace

DeviceLedger::DeviceLedger(c10::Device device, Watch& watch, Clock::duration deadline,
                           std::function<void(const std::string&)> failed)
    : device_(device),
      watch_(watch),
      slice_(std::clamp<Clock::duration>(deadline / 30, 20ms, 500ms)),
      failed_(std::move(failed)),
      thread_([this] { watch_over(); }) {}

DeviceLedger::~DeviceLedger() {
  closing_ = true;
  thread_.join();
}

DeviceLedger::OperationPtr DeviceLedger::add(Operation operation) {
  auto added = std::make_shared<Operation>(std::move(operation));
  const std::lock_guard hold(lock_);
  added->turn = turns_[added->channel]++;
  under_way_[added->channel].push_back(added);
  return added;
}

void DeviceLedger::about_to_wait(const OperationPtr& operation) {
  DeviceMark asked = DeviceMark::on(device_);
  const std::lock_guard hold(lock_);
  stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  waits_.push_back({std::move(asked), operation});
}

// The operation that the device waits for. Under the lock.
const DeviceLedger::Operation* DeviceLedger::awaited() {
  while (!waits_.empty() && waits_.front().operation->landed.reached()) waits_.pop_front();
  return !waits_.empty() && waits_.front().asked.reached() ? waits_.front().operation.get() : nullptr;
}

bool DeviceLedger::device_waits() {
  const std::lock_guard hold(lock_);
  return awaited() != nullptr;
}

void DeviceLedger::look() {
  std::vector<Standing> standing;
  std::string awaits;
  bool progress = false;
  {
    const std::lock_guard hold(lock_);
    const auto now = Clock::now();
    for (auto& [channel, operations] : under_way_) {
      for (; !operations.empty() && operations.front()->landed.reached(); progress = true) operations.pop_front();
      if (operations.empty()) continue;
      Operation& first = *operations.front();
      if (fault_.empty())
        if (const std::string fault = first.fault ? first.fault() : ""; !fault.empty()) {
          fault_ = fmt::format("{}: {}", first.sentence.empty() ? first.expects : first.sentence, fault);
          fault_since_ = now;
        }
      if (!first.stands_since && first.ready.reached()) first.stands_since = now;
      if (first.stands_since)
        standing.push_back({fmt::format("{}#{}", channel, first.turn), first.members, first.sentence, now - *first.stands_since});
    }
    if (const Operation* operation = awaited())
      awaits = operation->expects;
    else
      progress |= stream_ && !c10::impl::VirtualGuardImpl(device_.type()).queryStream(*stream_);  // it computes
  }
  if (progress) watch_.progress();
  watch_.device(awaits, std::move(standing));
}

void DeviceLedger::watch_over() {
  try {
    c10::impl::VirtualGuardImpl(device_.type()).setDevice(device_);
    while (!closing_) {
      std::this_thread::sleep_for(slice_);
      look();
      if (fault_.empty() || Clock::now() - fault_since_ < kLossFirst) continue;
      failed_(fault_);
      return;
    }
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (!closing_) failed_(text.substr(0, text.find('\n')));
  }
}

}  // namespace panpipe::exec
