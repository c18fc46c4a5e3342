// Ports for ranks that meet on this host.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

namespace panpipe::test {

// A port that nobody listens at now. From below those that Linux gives to connections (net.ipv4.ip_local_port_range, 32768 and
// more): one of those could be taken before a rank opens it.
inline int unused_port() {
  static thread_local std::mt19937 draw{std::random_device{}()};
  for (;;) {
    const int port = std::uniform_int_distribution<int>(10000, 32767)(draw);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool unused = bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    close(socket);
    if (unused) return port;
  }
}

}  // namespace panpipe::test
