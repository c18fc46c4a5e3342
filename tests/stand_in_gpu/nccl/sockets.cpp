#include "tests/stand_in_gpu/nccl/sockets.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

using namespace std::chrono_literals;

constexpr int kLookForAbort = 20;  // ms

std::uint32_t own_address() {
  const std::string wanted = text_setting("NCCL_SOCKET_IFNAME");
  ifaddrs* all = nullptr;
  std::uint32_t found = htonl(INADDR_LOOPBACK);
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_UP) == 0) continue;
    const bool fits = wanted.empty() ? (one->ifa_flags & IFF_LOOPBACK) == 0 : std::string(one->ifa_name).starts_with(wanted);
    if (!fits) continue;
    found = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr;
    break;
  }
  freeifaddrs(all);
  return found;
}

sockaddr_in to_socket_address(const Address& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = address.host;
  result.sin_port = htons(address.port);
  return result;
}

// Small messages leave at once.
int without_delay(int connection) {
  const int yes = 1;
  if (connection >= 0) setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return connection;
}

int new_socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

// Waits in pieces, so that an abort is seen.
bool wait_for(int socket, short what, const std::atomic<bool>& aborted) {
  while (!aborted) {
    pollfd one{socket, what, 0};
    if (poll(&one, 1, kLookForAbort) > 0) return true;
  }
  return false;
}

bool is_passing(int error) { return error == EINTR || error == EAGAIN; }

void spin_on_a_lost_peer(const std::atomic<bool>& aborted) {
  while (!aborted) std::this_thread::sleep_for(std::chrono::milliseconds(kLookForAbort));
}

}  // namespace

int listen_for_members(Address& address) {
  const int listener = new_socket();
  sockaddr_in where = to_socket_address({own_address(), 0});
  socklen_t size = sizeof(where);
  if (bind(listener, reinterpret_cast<sockaddr*>(&where), size) != 0 || listen(listener, 1024) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&where), &size) != 0) {
    std::perror("stand-in GPU: NCCL cannot listen");
    close(listener);
    return -1;
  }
  address = {where.sin_addr.s_addr, ntohs(where.sin_port)};
  return listener;
}

int connect_to(const Address& address) {
  for (;;) {
    const int one = new_socket();
    const sockaddr_in where = to_socket_address(address);
    if (connect(one, reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0) return without_delay(one);
    close(one);
    std::this_thread::sleep_for(5ms);
  }
}

int accept_from(int listener) { return without_delay(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)); }

bool send_all(int socket, const void* data, std::size_t size, const std::atomic<bool>& aborted) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    if (!wait_for(socket, POLLOUT, aborted)) return false;
    const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && is_passing(errno)) continue;
    if (sent <= 0) {
      spin_on_a_lost_peer(aborted);
      return false;
    }
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size, const std::atomic<bool>& aborted) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    if (!wait_for(socket, POLLIN, aborted)) return false;
    const ssize_t got = recv(socket, at, size, MSG_DONTWAIT);
    if (got < 0 && is_passing(errno)) continue;
    if (got <= 0) {
      spin_on_a_lost_peer(aborted);
      return false;
    }
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace panpipe::stand_in
