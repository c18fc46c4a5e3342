// Memory of devices, which is memory of the host that this process keeps apart, and pinned memory of the host.
#pragma once

namespace panpipe::stand_in {

bool is_pinned(const void* address);
// The device whose memory it is, or -1.
int device_of(const void* address);

}  // namespace panpipe::stand_in
