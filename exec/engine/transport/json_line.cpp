#include "exec/engine/transport/json_line.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace panpipe::exec {
namespace {

using Steady = std::chrono::steady_clock;

// A connected socket, or -1. `patience` bounds the attempt: an unreachable host answers nothing at all.
int connect_once(const addrinfo& address, int timeout_ms) {
  const int socket = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  int fault = ::connect(socket, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (fault == EINPROGRESS) {
    pollfd wait{socket, POLLOUT, 0};
    socklen_t size = sizeof(fault);
    if (poll(&wait, 1, timeout_ms) != 1 || getsockopt(socket, SOL_SOCKET, SO_ERROR, &fault, &size) != 0) fault = ETIMEDOUT;
  }
  if (fault == 0) return socket;
  ::close(socket);
  return -1;
}

}  // namespace

Line::Line(int socket) : socket_(socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}
Line::Line(Line&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      jammed_(other.jammed_),
      unsent_(std::move(other.unsent_)),
      rest_(std::move(other.rest_)) {}
Line& Line::operator=(Line&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(jammed_, other.jammed_);
  std::swap(unsent_, other.unsent_);
  std::swap(rest_, other.rest_);
  return *this;
}
Line::~Line() { close(); }

void Line::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

std::optional<Line> Line::connect(const std::string& host, int port, Steady::duration deadline) {
  const auto end = Steady::now() + deadline;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  while (true) {
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) == 0) {
      for (const addrinfo* address = found; address; address = address->ai_next) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Steady::now()).count();
        const int socket = connect_once(*address, static_cast<int>(std::max<long>(left, 1)));
        if (socket < 0) continue;
        freeaddrinfo(found);
        return Line(socket);
      }
      freeaddrinfo(found);
    }
    if (Steady::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool Line::send(const nlohmann::json& document) {
  if (!open() || jammed_) return false;
  unsent_ += document.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  const ssize_t sent = ::send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) unsent_.erase(0, static_cast<std::size_t>(sent));
  const bool full = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  jammed_ = (sent < 0 && !full) || unsent_.size() > kLongest;
  return !jammed_;
}

std::vector<nlohmann::json> Line::receive(bool& ended, std::size_t longest) {
  ended = !open();
  char buffer[8192];
  while (!ended) {
    const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), MSG_DONTWAIT);
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
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  std::string text;
  for (const addrinfo* address = found; address && text.empty(); address = address->ai_next) {
    const int socket = ::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_storage mine{};
    socklen_t size = sizeof(mine);
    char name[INET6_ADDRSTRLEN];
    if (::connect(socket, address->ai_addr, address->ai_addrlen) == 0 &&
        getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, name, sizeof(name), nullptr, 0, NI_NUMERICHOST) == 0)
      text = name;
    ::close(socket);
  }
  freeaddrinfo(found);
  return text;
}

}  // namespace panpipe::exec
