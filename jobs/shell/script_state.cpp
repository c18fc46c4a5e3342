#include "jobs/shell/script_state.hpp"

#include <algorithm>

namespace panpipe::jobs {
namespace {

template <class Map>
bool equal_texts(const Map& a, const Map& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.second.same_as(y.second); });
}

}  // namespace

bool ScriptVariable::same_as(const ScriptVariable& other) const {
  return is_array == other.is_array && is_map == other.is_map && text.same_as(other.text) && equal_texts(items, other.items) &&
         equal_texts(named, other.named);
}

std::vector<ShellText> ScriptVariable::all() const {
  std::vector<ShellText> texts;
  for (const auto& [index, item] : items) texts.push_back(item);
  for (const auto& [name, item] : named) texts.push_back(item);
  if (!is_array && !is_map) texts.push_back(text);
  return texts;
}

int ScriptState::argument_count() const { return arguments.empty() ? 0 : arguments.rbegin()->first; }

Outcome Outcome::negated() const {
  Outcome other = *this;
  if (truth != Truth::Unknown) other.truth = truth == Truth::Yes ? Truth::No : Truth::Yes;
  if (assumed) other.assumed = !*assumed;
  if (likely) other.likely = !*likely;
  other.external = false;
  return other;
}

namespace {

Outcome joined(const Outcome& a, const Outcome& b) {
  Outcome outcome = Outcome::unknown(a.why);
  outcome.why.insert(outcome.why.end(), b.why.begin(), b.why.end());
  outcome.note = a.note >= 0 ? a.note : b.note;
  return outcome;
}

std::optional<bool> taken_for(const Outcome& outcome) {
  return outcome.truth == Outcome::Truth::Unknown ? outcome.assumed : std::optional(outcome.truth == Outcome::Truth::Yes);
}

Outcome joint(const Outcome& a, const Outcome& b) {
  if (a.truth == Outcome::Truth::No || b.truth == Outcome::Truth::No) return Outcome::of(false);
  if (a.truth == Outcome::Truth::Yes) return b;
  if (b.truth == Outcome::Truth::Yes) return a;
  Outcome outcome = joined(a, b);
  const auto x = taken_for(a), y = taken_for(b);
  if (x && y) outcome.assumed = *x && *y;
  return outcome;
}

}  // namespace

Outcome both(const Outcome& a, const Outcome& b) {
  Outcome outcome = joint(a, b);
  outcome.presumed = a.presumed || b.presumed;
  return outcome;
}

Outcome either(const Outcome& a, const Outcome& b) { return both(a.negated(), b.negated()).negated(); }

}  // namespace panpipe::jobs
