#include "exec/launch/sockets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace panpipe::exec {

Pipe::Pipe(const char* name) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw MachineError(fmt::format("cannot make {}: {}", name, std::strerror(errno)));
  read_ = Handle(ends[0]);
  write_ = Handle(ends[1]);
}

void Pipe::take_over(int descriptor) const {
  fcntl(write_.get(), F_SETFL, 0);
  dup2(write_.get(), descriptor);
}

bool Pipe::read(std::string& text) const {
  constexpr int kMostTurns = 16;  // 1 MiB; a pipe of Linux holds 64 KiB
  std::array<char, 1 << 16> buffer;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const ssize_t count = ::read(read_.get(), buffer.data(), buffer.size());
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return true;
}

Addresses addresses_of(const std::string& host, int port, int type, int* fault) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = type;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (fault != nullptr) *fault = code;
  return {code == 0 ? found : nullptr, [](addrinfo* list) {
            if (list != nullptr) freeaddrinfo(list);
          }};
}

Handle listener_at(const std::string& host, int& port) {
  const Addresses found = addresses_of(host, port);
  int fault = 0;
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    Handle listener(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int one = 1;  // connections of a run that has just ended do not hold the port
    if (port != 0) setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in6 own{};  // the longer of the two kinds
    socklen_t size = sizeof(own);
    if (!listener.open() || bind(listener.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        listen(listener.get(), 1024) != 0 || getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
      fault = errno;
      continue;
    }
    port = ntohs(own.sin6_family == AF_INET6 ? own.sin6_port : reinterpret_cast<const sockaddr_in&>(own).sin_port);
    return listener;
  }
  errno = fault;
  return {};
}

}  // namespace panpipe::exec
