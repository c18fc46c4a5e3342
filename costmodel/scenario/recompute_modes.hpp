// How scenarios, plans and answers name what a stage recomputes.
#pragma once

#include <string_view>

#include "base/input/reader.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

const Choices<Recompute>& recompute_modes();
std::string_view name_of(Recompute mode);  // "none", "selective", "full"

}  // namespace panpipe
