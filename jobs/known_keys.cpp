#include "jobs/known_keys.hpp"

#include <fmt/format.h>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::jobs {
namespace {

template <class T>
concept HasContext = requires(T parallel) {
  parallel.context;
};
template <class T>
concept HasExpert = requires(T parallel) {
  parallel.expert;
};
template <class T>
concept HasFp8 = requires {
  T::Fp8;
};

}  // namespace

bool scenario_has_context() { return HasContext<Parallel>; }
bool scenario_has_expert() { return HasExpert<Parallel>; }
bool scenario_has_fp8() { return HasFp8<Precision>; }

bool put_context(ImportedJob& job, int degree, const std::string& origin) {
  if (degree > 1 && !scenario_has_context()) return false;
  if (degree > 1) job.set("parallel.context", degree, origin);
  return true;
}

bool put_expert(ImportedJob& job, int degree, int tensor, const std::string& origin) {
  if (degree > 1 && !scenario_has_expert()) return false;
  if (degree > 1) job.set("parallel.expert", degree, origin);
  if (degree > 1 && tensor > 0) job.set("parallel.expert_tensor", tensor, origin);
  return true;
}

void put_fp8(ImportedJob& job, const std::string& format, const std::string& origin) {
  if (scenario_has_fp8()) return job.set("precision", format, origin);
  job.set("precision", "bf16", origin);
  job.not_modelled.push_back(fmt::format("{}: products are predicted in bf16", origin));
}

}  // namespace panpipe::jobs
