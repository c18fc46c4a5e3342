// The models that torchtitan identifies by name and flavor, as keys of config.json (scenarios/trainers/torchtitan.yaml).
#pragma once

#include <string>
#include <vector>

namespace panpipe::jobs {

struct TorchtitanFlavor {
  std::string model, flavor;
  int layers;
  std::string config;    // a YAML flow map
  std::string function;  // of its configuration in torchtitan's registry; empty: it has none
  std::string settings;  // what that function states, as a YAML flow map
};

const std::vector<TorchtitanFlavor>& torchtitan_flavors();

}  // namespace panpipe::jobs
