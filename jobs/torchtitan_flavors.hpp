// The models that torchtitan identifies by name and flavor, as keys of config.json.
#pragma once

#include <string>
#include <vector>

namespace panpipe::jobs {

struct TorchtitanFlavor {
  std::string model, flavor;
  int layers;
  std::string config;  // a YAML flow map
};

// Source: torchtitan/models/{llama3,qwen3,deepseek_v3}/__init__.py of pytorch/torchtitan, as of February 2026. Hidden sizes of
// the MLP follow its rounding: 8B: 2/3 x 4 x 4096 x 1.3 = 14198, rounded up to a multiple of 1024.
const std::vector<TorchtitanFlavor>& torchtitan_flavors();

}  // namespace panpipe::jobs
