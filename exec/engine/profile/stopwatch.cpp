#include "exec/engine/profile/stopwatch.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace panpipe::exec {

void Stopwatch::read() {
  if (unread_.empty()) return;
  unread_.back().end.wait();
  for (const Piece& piece : unread_) piece.samples->push_back(piece.end.seconds_since(piece.start));
  unread_.clear();
}

void Stopwatch::wait() const {
  if (device_.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  guard.synchronizeStream(guard.getStream(device_));
}

}  // namespace panpipe::exec
