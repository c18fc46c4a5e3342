// Declarations of the Gloo names in LibTorch's ProcessGroupGloo.hpp. The torch package contains the library but none of its
// headers, and headers of another release could have other layouts of classes and virtual tables. Panpipe only makes process
// groups and calls c10d's functions; LibTorch alone creates, calls or destroys Gloo's classes. Declarations are therefore enough,
// and fit any release.
//
// Headers that CMakeLists.txt writes into the build folder redirect <gloo/...> to this file. tests/exec/gloo_symbols_test.py
// checks that the compiled objects contain no function and no table of Gloo's.
#pragma once

#define PANPIPE_GLOO_NAMES

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

// Called by an inline function of ProcessGroupGloo that is compiled only if it is called.
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

namespace rendezvous {

// The base of c10d's GlooStore. Without definitions, so creating one does not link.
class Store {
 public:
  Store();
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};

}  // namespace rendezvous
}  // namespace gloo
