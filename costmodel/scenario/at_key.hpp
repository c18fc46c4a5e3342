// Faults at a key of a scenario.
#pragma once

#include <string>

#include "base/error.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// What `work` returns; an InputError of it without a place gets that of the key.
template <class Work>
auto at_key(const Scenario& scenario, const std::string& key, Work work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw placed(error, scenario, key);
  }
}

}  // namespace panpipe
