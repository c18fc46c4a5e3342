#include "exec/engine/transport/json_line.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace panpipe::exec {
namespace {

using Steady = std::chrono::steady_clock;

// A connected socket, or a closed one. The limit is for an unreachable host, which answers nothing at all.
Handle connect_once(const addrinfo& address, int timeout_ms) {
  Handle socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int fault = ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (fault == EINPROGRESS) {
    pollfd wait{socket.get(), POLLOUT, 0};
    socklen_t size = sizeof(fault);
    if (poll(&wait, 1, timeout_ms) != 1 || getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &fault, &size) != 0) fault = ETIMEDOUT;
  }
  return fault == 0 ? std::move(socket) : Handle();
}

}  // namespace

Line::Line(int socket) : socket_(socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

std::optional<Line> Line::connect(const std::string& host, int port, Steady::duration deadline) {
  const auto end = Steady::now() + deadline;
  while (true) {
    const Addresses found = addresses_of(host, port);
    for (const addrinfo* address = found.get(); address; address = address->ai_next) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Steady::now()).count();
      if (Handle socket = connect_once(*address, static_cast<int>(std::max<long>(left, 1))); socket.open())
        return Line(socket.release());
    }
    if (Steady::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool Line::send(const nlohmann::json& document) {
  if (!open() || jammed_) return false;
  unsent_ += document.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  const ssize_t sent = ::send(socket(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) unsent_.erase(0, static_cast<std::size_t>(sent));
  const bool full = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  jammed_ = (sent < 0 && !full) || unsent_.size() > kLongest;
  return !jammed_;
}

std::vector<nlohmann::json> Line::receive(bool& ended, std::size_t longest) {
  ended = !open();
  char buffer[8192];
  while (!ended) {
    const ssize_t count = ::recv(socket(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count > 0) rest_.append(buffer, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) ended = true;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (rest_.size() > longest) ended = true;
  }
  std::vector<nlohmann::json> documents;
  for (std::size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1)) {
    auto document = nlohmann::json::parse(rest_.substr(0, end), nullptr, false);
    if (document.is_object())
      documents.push_back(std::move(document));
    else
      ended = true;
  }
  return documents;
}

std::string address_towards(const std::string& host, int port) {
  const Addresses found = addresses_of(host, port, SOCK_DGRAM);
  for (const addrinfo* address = found.get(); address; address = address->ai_next) {
    const Handle socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage mine{};
    socklen_t size = sizeof(mine);
    char name[INET6_ADDRSTRLEN];
    if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, name, sizeof(name), nullptr, 0, NI_NUMERICHOST) == 0)
      return name;
  }
  return "";
}

}  // namespace panpipe::exec
