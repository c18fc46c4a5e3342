#include "costmodel/degrees/check_degrees.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/counted.hpp"
#include "costmodel/degrees/axes.hpp"

namespace panpipe {
namespace {

using D = const Degrees&;
using F = const DegreeFacts&;

// Stated numbers may make products beyond any integer.
double devices_asked_for(D d) { return static_cast<double>(d.pipeline) * d.tensor * d.data * d.context; }
std::int64_t replicas_of(D d) { return std::int64_t{d.data} * d.context; }
std::int64_t ranks_for_experts(D d) { return replicas_of(d) * d.tensor / d.expert_tensor_group(); }

std::string divisors_text(std::int64_t number) {
  std::string list;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) list += fmt::format("{}{}", list.empty() ? "" : ", ", d);
  return list;
}

std::string of_both_divisions(D, F) { return "experts over several ranks and ZeRO in shard groups are not modelled together"; }
std::string without_shard(D, F) {
  return "leave parallel.shard out: each kind of weights is then divided over all ranks that hold it";
}
std::string no_help(D, F) { return ""; }

struct Rule {
  std::string_view key;
  bool (*broken)(D, F);
  std::string (*message)(D, F);
  std::string (*help)(D, F);
};

constexpr Rule kRules[] = {
    {"zero", [](D d, F) { return d.zero < 0 || d.zero > 3; }, [](D d, F) { return fmt::format("'{}' is no ZeRO stage", d.zero); },
     [](D, F) { return std::string("zero is 0, 1, 2 or 3"); }},
    {"shard", [](D d, F f) { return f.replicas && d.shard > 0 && replicas_of(d) % d.shard != 0; },
     [](D d, F) { return fmt::format("shard {} does not divide {}, which it cuts into groups", d.shard, replicas_text(d)); },
     [](D d, F) {
       return fmt::format("shard is the ranks of a shard group, for {}: {}", replicas_text(d), divisors_text(replicas_of(d)));
     }},
    {"expert_tensor", [](D d, F) { return d.expert_tensor > 1 && d.expert_tensor != d.tensor; },
     [](D d, F) {
       return fmt::format("expert_tensor {} cuts an expert otherwise than tensor {} cuts the rest", d.expert_tensor, d.tensor);
     },
     [](D d, F) {
       return d.tensor > 1 ? fmt::format("expert_tensor is 1 (experts stay whole) or {}, as tensor", d.tensor)
                           : std::string("expert_tensor is 1 where tensor is");
     }},
    {"expert", [](D d, F) { return d.expert > 1 && d.shard > 0; }, of_both_divisions, without_shard},
    {"expert_tensor", [](D d, F) { return d.expert == 1 && d.expert_tensor == 1 && d.tensor > 1 && d.shard > 0; },
     of_both_divisions, without_shard},
    {"expert", [](D d, F f) { return f.replicas && f.all && d.expert > 1 && ranks_for_experts(d) % d.expert != 0; },
     [](D d, F) {
       return fmt::format(
           "experts over {} ranks do not divide the {} that a pipeline rank has for them (tensor {} x context {} x "
           "data {} / expert_tensor {})",
           d.expert, ranks_for_experts(d), d.tensor, d.context, d.data, d.expert_tensor_group());
     },
     [](D d, F) { return "experts share out the ranks that hold the same weights: " + divisors_text(ranks_for_experts(d)); }},
    {"expert_tensor", [](D d, F f) { return f.experts == 0 && d.expert_tensor > 0; },
     [](D, F f) { return fmt::format("expert_tensor divides experts, and {} has none; leave it out", f.model); }, no_help},
    {"expert", [](D d, F f) { return f.experts == 0 && d.expert > 1; },
     [](D d, F f) {
       return fmt::format("expert parallelism of {} divides experts, and {} has none; set parallel.expert to 1", d.expert,
                          f.model);
     },
     no_help},
    {"expert", [](D d, F f) { return f.experts > 0 && d.experts_apart() && f.experts % d.expert != 0; },
     [](D d, F f) {
       return fmt::format("expert parallelism of {} does not divide the {} experts of {}", d.expert, f.experts, f.model);
     },
     no_help},
    {"sequence_parallel", [](D d, F f) { return f.experts > 0 && d.experts_apart() && d.tensor > 1 && !d.sequence_parallel; },
     [](D d, F f) {
       return fmt::format(
           "experts of {} over ranks of their own: each rank of a tensor group of {} sends its own part of the "
           "tokens, so set parallel.sequence_parallel to true",
           f.model, d.tensor);
     },
     no_help},
    {"pipeline", [](D d, F f) { return f.devices > 0 && devices_asked_for(d) > static_cast<double>(f.devices); },
     [](D d, F f) {
       return fmt::format("parallel asks for {:.0f} devices ({}{}{}) but {}", devices_asked_for(d), product_text(d),
                          f.stated.empty() ? "" : ", ", f.stated, devices_text(f));
     },
     no_help},
};

}  // namespace

std::vector<DegreeProblem> check_degrees(const Degrees& degrees, const DegreeFacts& facts) {
  std::vector<DegreeProblem> problems;
  for (const Rule& rule : kRules)
    if (rule.broken(degrees, facts)) problems.push_back({rule.key, rule.message(degrees, facts), rule.help(degrees, facts)});
  return problems;
}

bool degrees_hold(const Degrees& degrees, const DegreeFacts& facts) {
  return std::none_of(std::begin(kRules), std::end(kRules), [&](const Rule& rule) { return rule.broken(degrees, facts); });
}

std::string devices_text(const DegreeFacts& facts) {
  return fmt::format("the cluster has {}{}", counted(facts.devices, "device"),
                     facts.devices_from.empty() ? "" : fmt::format(" ({})", facts.devices_from));
}

}  // namespace panpipe
