// A process that this one starts, and its end. No LibTorch here.
#pragma once

#include <sys/types.h>

#include <functional>

namespace panpipe::exec {

class Child {
 public:
  // The process ends with the code that `body` returns in it, and does not outlive this one. Ctrl-C of the terminal comes to it
  // through this one. Its standard input is this one's where that is a file, else empty. An exception of `body` is a line on its
  // standard error, after `mark`. Throws MachineError with the name ("a rank") if no process can be started.
  Child(const char* name, const std::function<int()>& body, const char* mark = "");
  ~Child() { end(); }
  Child(const Child&) = delete;

  bool running() const { return process_ > 0; }
  bool ended();                           // since the last call?
  int status() const { return status_; }  // of waitpid(), after the end
  void send(int signal) const;
  void end();  // kills what runs of it and of what it started, and waits

 private:
  pid_t process_ = -1;
  int status_ = 0;
};

}  // namespace panpipe::exec
