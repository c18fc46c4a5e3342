// Bounds how deep a script nests. Internal to the parser.
#pragma once

#include "jobs/shell/script_parser.hpp"

namespace panpipe::jobs {

class ScriptParser::Nesting {
 public:
  explicit Nesting(ScriptParser& parser) : parser_(parser) {
    constexpr int kMostDepth = 120;
    if (++parser_.depth_ > kMostDepth) {
      --parser_.depth_;
      parser_.fault("the script nests too deep");
    }
  }
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ScriptParser& parser_;
};

}  // namespace panpipe::jobs
