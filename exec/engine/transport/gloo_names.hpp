// The names of Gloo that LibTorch's ProcessGroupGloo.hpp mentions. The torch package holds the library and none of its headers;
// headers of another release could lay out classes and virtual tables otherwise. Panpipe makes process groups and calls c10d's
// functions: a class of Gloo is made, called or destroyed in LibTorch alone. So names are enough, and any release fits them.
//
// <gloo/...> leads here by headers that CMakeLists.txt writes into the build folder. tests/exec/gloo_symbols_test.py holds the
// compiled objects to it: no function and no table of Gloo's in them.
#pragma once

#define PANPIPE_GLOO_NAMES

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

// Called by an inline function of ProcessGroupGloo that is compiled only where it is called.
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

namespace rendezvous {

// The base of c10d's GlooStore. Without definitions: making one does not link.
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
