// Memory of devices, which is memory of the host that this process keeps apart, and pinned memory of the host.
#pragma once

#include <cstddef>

namespace panpipe::stand_in {

bool is_pinned(const void* address);
// The device whose memory it is, or -1.
int device_of(const void* address);

// Counts bytes of a device as taken; false where it has fewer left.
bool take_memory(int device, std::size_t size);
void give_memory_back(int device, std::size_t size);
// Addresses of the host, without memory until they are written to; null where there are none.
void* reserve_addresses(std::size_t size);
void release_addresses(void* address, std::size_t size);
// From now on these addresses are memory of the device; or no longer.
void add_device_memory(const void* address, std::size_t size, int device);
void remove_device_memory(const void* address);

}  // namespace panpipe::stand_in
