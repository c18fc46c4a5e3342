// The names of recompute modes in scenarios, plans and answers.
#pragma once

#include <string>
#include <string_view>

#include "base/input/reader.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

const Choices<Recompute>& recompute_modes();
std::string_view name_of(Recompute mode);  // "none", "selective", "full"

// "attention", "norms", "elementwise", "products", "second-products"
const Choices<RecomputedKind>& recomputed_kinds();
std::string names_of(const std::vector<RecomputedKind>& operators);  // "norms, elementwise"
const Choices<RecomputedModule>& recomputed_modules();
std::string_view name_of(RecomputedModule module);

// The mode with its scope: "full, one block in 2", "selective (norms, elementwise)".
std::string recompute_words(Recompute mode, const RecomputeScope& scope);

}  // namespace panpipe
