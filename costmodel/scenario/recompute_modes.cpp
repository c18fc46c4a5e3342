#include "costmodel/scenario/recompute_modes.hpp"

namespace panpipe {

const Choices<Recompute>& recompute_modes() {
  static const Choices<Recompute> modes = {
      {"none", Recompute::None}, {"selective", Recompute::Selective}, {"full", Recompute::Full}};
  return modes;
}

std::string_view name_of(Recompute mode) {
  for (const auto& [name, value] : recompute_modes())
    if (value == mode) return name;
  return "none";
}

}  // namespace panpipe
