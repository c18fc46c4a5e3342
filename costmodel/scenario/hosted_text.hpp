// The words for state in the host's memory.
#pragma once

#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// "optimizer and parameters in the host's memory"; empty where the devices hold all.
inline std::string hosted_text(const HostedState& hosted) {
  if (!hosted.optimizer && !hosted.parameters) return "";
  return std::string(hosted.optimizer && hosted.parameters ? "optimizer and parameters"
                     : hosted.optimizer                    ? "optimizer"
                                                           : "parameters") +
         " in the host's memory";
}

}  // namespace panpipe
