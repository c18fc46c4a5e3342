// A TCP connection that carries small JSON documents, one per line.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exec/launch/sockets.hpp"

namespace panpipe::exec {

class Line {
 public:
  Line() = default;
  explicit Line(int socket);

  // Retries until the deadline, since the listener may start later. nullopt if it did not start.
  static std::optional<Line> connect(const std::string& host, int port, std::chrono::steady_clock::duration deadline);

  int socket() const { return socket_.get(); }
  bool open() const { return socket_.open(); }
  void close() { socket_.close(); }
  // Without waiting: what the other side does not take now is sent before the next document. Returns false if it is gone, or has
  // not taken kLongest bytes; nothing more is sent then, because half a line may have been sent.
  bool send(const nlohmann::json& document);
  // Returns the documents received so far, without waiting. Sets `ended` if the other side closed, or sent an invalid line: not a
  // JSON object, or longer than `longest` bytes.
  std::vector<nlohmann::json> receive(bool& ended, std::size_t longest = kLongest);
  // Far above any message of a watch.
  static constexpr std::size_t kLongest = 1 << 20;

 private:
  Handle socket_;
  bool jammed_ = false;
  std::string unsent_;
  std::string rest_;  // of what was received: a line without its end
};

// This host's address on the route to another host, which Gloo must listen on. Empty if there is no route.
std::string address_towards(const std::string& host, int port);

}  // namespace panpipe::exec
