// A stream of its own for copies between a device and its host.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "exec/engine/measure/span_log.hpp"

namespace panpipe::exec {

inline c10::impl::VirtualGuardImpl guard_of(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()); }

// The current stream of this thread is the copy stream while it lives; the copies come after what the computation did.
class OnCopyStream {
 public:
  OnCopyStream(c10::Device device, const c10::Stream& stream) : guard_(guard_of(device)) {
    c10::Event computed(device.type());
    computed.record(guard_.getStream(device));
    computed.block(stream);
    before_ = guard_.exchangeStream(stream);
  }
  ~OnCopyStream() { guard_.exchangeStream(*before_); }
  OnCopyStream(const OnCopyStream&) = delete;
  OnCopyStream& operator=(const OnCopyStream&) = delete;

 private:
  c10::impl::VirtualGuardImpl guard_;
  std::optional<c10::Stream> before_;
};

inline c10::Event timed(const c10::Stream& stream) {
  c10::Event event(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(stream);
  return event;
}

// Of work on such a stream; without one of the host's own.
inline SpanLog::Moment moment_on(const std::optional<c10::Stream>& stream) {
  return {Clock::now(), stream ? DeviceMark(timed(*stream)) : DeviceMark()};
}

}  // namespace panpipe::exec
