// The words for state in the host's memory.
#pragma once

#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// "optimizer and parameters in the host's memory"; empty where the devices hold all.
inline std::string hosted_text(const HostedState& hosted) {
  std::string text;
  const auto add = [&](bool lies, const char* what) {
    if (lies) text += (text.empty() ? "" : " and ") + std::string(what);
  };
  add(hosted.optimizer, hosted.streams ? "optimizer (streamed)" : "optimizer");
  add(hosted.parameters, "parameters");
  add(hosted.gradients, "gradients");
  add(hosted.blocks > 0, "activations of blocks");
  add(hosted.blocks == 0 && hosted.block_inputs, "inputs of blocks");
  return text.empty() ? "" : text + " in the host's memory";
}

}  // namespace panpipe
