// TCP between the members of a communicator.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace panpipe::stand_in {

// Where somebody listens, as it travels between processes.
struct Address {
  std::uint32_t host;  // network byte order
  std::uint16_t port;
};

// A socket that listens on this host's address for the others: that of the interface in NCCL_SOCKET_IFNAME (the beginning of its
// name, as NCCL takes it), else of the first that is not the loopback, else the loopback's.
int listen_for_members(Address& address);
// Tries until somebody listens there.
int connect_to(const Address& address);
int accept_from(int listener);

// Sends or receives all of it. False once `aborted`, which also ends the wait. A peer that is gone does not end it: a kernel of
// NCCL's spins for ever on a peer that does not answer.
bool send_all(int socket, const void* data, std::size_t size, const std::atomic<bool>& aborted);
bool receive_all(int socket, void* data, std::size_t size, const std::atomic<bool>& aborted);

}  // namespace panpipe::stand_in
