// GPT-2 on eight devices, to which tests of the reader add lines.
#pragma once

#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

inline const std::string kSmall =
    "panpipe: 1\n"
    "cluster: {devices: 8, memory: 24 GiB, usable: 85 %, link: {latency: 0.26 ms, bandwidth: unlimited}}\n"
    "workload: {model: gpt2}\n"
    "batch: {micro: 2, microbatches: 8}\n";

inline Scenario parse(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_scenario(kSmall + more, "folder/small.yaml", "folder", overrides);
}

}  // namespace panpipe
