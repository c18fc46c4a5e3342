// Descriptors, pipes and TCP sockets of the programs that start ranks and of the ranks. No LibTorch here.
#pragma once

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

namespace panpipe::exec {

// A file descriptor that closes itself.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int number) : number_(number) {}
  Handle(Handle&& other) noexcept : number_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Handle() { close(); }
  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void close() {
    if (open()) ::close(release());
  }

 private:
  int number_ = -1;
};

// Through which a process that this one starts is heard.
class Pipe {
 public:
  explicit Pipe(const char* name);  // throws MachineError with the name: "a pipe"
  // In the started process: what it writes to the descriptor comes here.
  void take_over(int descriptor) const;
  // In this one, when the other is started.
  void close_write() { write_.close(); }
  int descriptor() const { return read_.get(); }
  // Appends what has come, without waiting: all that a process that has ended wrote, of one that writes without end a part. False
  // at the end.
  bool read(std::string& text) const;

 private:
  Handle read_, write_;
};

// The addresses of a host, in the order in which they are to be tried; null if it has none, with getaddrinfo()'s code in `fault`.
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;
Addresses addresses_of(const std::string& host, int port, int type = SOCK_STREAM, int* fault = nullptr);

// Listens at an address of a host: on `port`, or if that is 0 on one that the system chooses, which `port` becomes. Accepts
// without waiting. Closed if no port can be
// opened there; errno has the reason.
Handle listener_at(const std::string& host, int& port);

}  // namespace panpipe::exec
