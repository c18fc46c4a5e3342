// The list of schedule families. A new family is a file in this folder that defines its generator and its row, plus a line here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"
#include "schedule/find_family.hpp"
#include "schedule/limits.hpp"
#include "schedule/memory/memory_actions.hpp"
#include "schedule/order_building.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe {

// In the order in which they are shown.
#define PANPIPE_FAMILIES(ROW)                                                                  \
  /* whole backwards */                                                                        \
  ROW(gpipe_family)                                                                            \
  ROW(one_f_one_b_family)                                                                      \
  ROW(kfkb_family)                                                                             \
  ROW(seq_1f1b_family)                                                                         \
  ROW(slimpipe_family)                                                                         \
  ROW(interleaved_1f1b_family)                                                                 \
  ROW(looped_bfs_family)                                                                       \
  ROW(pfeife_family)                                                                           \
  ROW(one_f_one_b_v_family)                                                                    \
  ROW(hanayo_family)                                                                           \
  ROW(chimera_family)                                                                          \
  /* the same without a flush between steps */                                                 \
  ROW(pipedream_2bw_family)                                                                    \
  /* backwards split into input and weight gradient */                                         \
  ROW(zb_h1_family)                                                                            \
  ROW(zb_h2_family)                                                                            \
  ROW(interleaved_zero_bubble_family)                                                          \
  ROW(group_interleaved_family)                                                                \
  ROW(gis_h_family)                                                                            \
  ROW(zb_v_family)                                                                             \
  /* the same, searched for given costs within a memory limit (activations a rank may hold) */ \
  ROW(zb_auto_family)                                                                          \
  ROW(zb_v_auto_family)                                                                        \
  ROW(v_half_family)                                                                           \
  ROW(v_min_family)                                                                            \
  ROW(v_auto_family)                                                                           \
  ROW(auto_memory_family)                                                                      \
  /* weights in the memory of the host */                                                      \
  ROW(roundpipe_family)                                                                        \
  /* weights that go round the ranks */                                                        \
  ROW(weipipe_family)                                                                          \
  /* forwards and backwards in groups that overlap */                                          \
  ROW(dualpipe_family)                                                                         \
  ROW(dualpipe_v_family)                                                                       \
  ROW(stp_family)

#define PANPIPE_DECLARE(row) ScheduleFamily row();
PANPIPE_FAMILIES(PANPIPE_DECLARE)

const std::vector<ScheduleFamily>& schedule_families() {
#define PANPIPE_MAKE(row) row(),
  static const std::vector<ScheduleFamily> table = {PANPIPE_FAMILIES(PANPIPE_MAKE)};
  return table;
}

const ScheduleFamily* find_family(std::string_view name) {
  for (const ScheduleFamily& family : schedule_families())
    if (family.name == name) return &family;
  return nullptr;
}

std::optional<std::string> default_option(const ScheduleFamily& family, std::string_view key) {
  for (const auto& [name, value] : family.options)
    if (name == key) return std::string(value);
  return std::nullopt;
}

bool has_option(std::string_view name, std::string_view key) {
  const ScheduleFamily* family = find_family(name);
  return family != nullptr && default_option(*family, key).has_value();
}

namespace {

const ScheduleFamily& family_named(std::string_view name) {
  if (const ScheduleFamily* family = find_family(name)) return *family;
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  throw InputError(fmt::format("unknown schedule '{}'{}", name, suggestion_or_list(name, names)), "", code::kUnknownName);
}

void check_options_of(const ScheduleFamily& family, const ScheduleOptions& options) {
  std::vector<std::string> all;
  for (const auto& option : family.options) all.emplace_back(option.first);
  for (const auto& option : memory_options()) all.emplace_back(option.first);
  for (const auto& option : vocabulary_options()) all.emplace_back(option.first);
  const std::string known = fmt::format("; there are {}", fmt::join(all, ", "));
  for (const auto& option : options)
    if (std::find(all.begin(), all.end(), option.first) == all.end())
      throw InputError(
          fmt::format("unknown option '{}' of schedule {}{}", option.first, family.name, suggestion(option.first, all, known)));
}

void check_size(const ScheduleFamily& family, int ranks, int microbatches, const ScheduleOptions& options) {
  if (ranks < 1 || ranks > kMaxRanks) throw InputError(fmt::format("ranks must be 1 to {}, not {}", kMaxRanks, ranks));
  if (microbatches < 1 || microbatches > kMaxMicrobatches)
    throw InputError(fmt::format("microbatches must be 1 to {}, not {}", kMaxMicrobatches, microbatches));
  const auto number = [&](const char* option) -> long long {  // stated, or the family's own
    const std::optional<std::string> own = default_option(family, option);
    const int otherwise = !own ? 1 : *own == "P" ? ranks : std::atoi(own->c_str());
    return integer_option(options, option, std::max(1, otherwise), 1);
  };
  const long long per_rank = number("stages_per_rank"), splits = number("sequence_splits");
  const double actions = 3.0 * ranks * static_cast<double>(per_rank) * static_cast<double>(splits) * microbatches;  // F, I, W
  if (actions > kMaxActions)
    throw InputError(
        fmt::format("{} ranks with {} stage{} each and {} microbatches{} make up to {:.6g} million actions; at most "
                    "{:g} million are taken, what 8 GB of memory hold",
                    ranks, per_rank, per_rank == 1 ? "" : "s", microbatches,
                    splits > 1 ? fmt::format(" in {} slices", splits) : "", actions / 1e6, kMaxActions / 1e6));
}

}  // namespace

void check_options(std::string_view family, const ScheduleOptions& options) { check_options_of(family_named(family), options); }

Schedule make_schedule(std::string_view name, int ranks, int microbatches, const ScheduleOptions& options,
                       const PassCosts& costs) {
  const ScheduleFamily& family = family_named(name);
  check_options_of(family, options);
  check_size(family, ranks, microbatches, options);
  if (const std::string why = family.refused(ranks, microbatches, options); !why.empty()) throw InputError(why);
  Schedule schedule = family.searched() ? std::get<ScheduleFamily::Searched>(family.generate)(ranks, microbatches, options, costs)
                                        : std::get<ScheduleFamily::Fixed>(family.generate)(ranks, microbatches, options);
  if (cuts_vocabulary(options)) schedule = with_vocabulary_passes(std::move(schedule), family.name, options);
  return apply_memory_options(std::move(schedule), options, costs);
}

}  // namespace panpipe
