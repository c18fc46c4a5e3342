// A TCP connection that carries small JSON documents, one a line.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace panpipe::exec {

class Line {
 public:
  Line() = default;
  explicit Line(int socket);
  Line(Line&& other) noexcept;
  Line& operator=(Line&& other) noexcept;
  ~Line();

  // Keeps trying until the deadline: the listener may come later. Nothing when it did not.
  static std::optional<Line> connect(const std::string& host, int port, std::chrono::steady_clock::duration deadline);

  int socket() const { return socket_; }
  bool open() const { return socket_ >= 0; }
  void close();
  // False when the other side is gone or does not take what it is sent (then nothing more is sent: half a line may be on its
  // way).
  bool say(const nlohmann::json& document);
  // What has arrived, without waiting. `ended` when the other side closed, or sent what is no line of ours: not a JSON object, or
  // longer than `longest` bytes.
  std::vector<nlohmann::json> hear(bool& ended, std::size_t longest = kLongest);
  // Far above what a watch says.
  static constexpr std::size_t kLongest = 1 << 20;

 private:
  int socket_ = -1;
  bool jammed_ = false;
  std::string rest_;
};

// The address of this host on the way to another: what Gloo must listen on. Empty when there is no way.
std::string address_towards(const std::string& host, int port);

}  // namespace panpipe::exec
