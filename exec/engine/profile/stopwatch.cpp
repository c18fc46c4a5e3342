#include "exec/engine/profile/stopwatch.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace panpipe::exec {

c10::Event Stopwatch::marked() const {
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with timing
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

void Stopwatch::read() {
  if (unread_.empty()) return;
  unread_.back().end.synchronize();
  for (const Piece& piece : unread_) piece.samples->push_back(piece.start.elapsedTime(piece.end) * 1e-3);  // milliseconds
  unread_.clear();
}

void Stopwatch::wait() const {
  if (device_.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  guard.synchronizeStream(guard.getStream(device_));
}

}  // namespace panpipe::exec
