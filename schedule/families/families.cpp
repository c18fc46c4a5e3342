// The table of schedule families: the one place that lists them all. A new family is a file with its generator, a
// declaration in building.hpp, a row here and a source below.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"
#include "schedule/families/building.hpp"
#include "schedule/families/find_family.hpp"
#include "schedule/limits.hpp"
#include "schedule/memory/memory_actions.hpp"

namespace panpipe {

const std::vector<ScheduleFamily>& schedule_families() {
  static const std::vector<ScheduleFamily> table = {
      // Whole backwards.
      {"gpipe", "all forwards, then all backwards", {}, make_gpipe},
      {"1f1b", "one forward, one backward: few activations, the bubble of gpipe", {}, make_1f1b},
      {"kfkb", "1f1b in groups of microbatches: transfers have time to arrive", {{"group", "2"}}, make_kfkb},
      {"seq-1f1b",
       "1f1b over slices of the sequence: a smaller bubble and less memory",
       {{"sequence_splits", "2"}},
       make_seq_1f1b},
      {"interleaved-1f1b",
       "several stages per rank in turns: a smaller bubble for more transfers",
       {{"stages_per_rank", "2"}, {"group", "M / max(1, M div P)"}, {"combined", "false"}},
       make_interleaved_1f1b},
      {"looped-bfs", "several stages per rank, all microbatches of a stage at once", {{"stages_per_rank", "2"}}, make_looped_bfs},
      {"pfeife",
       "looped 1f1b in groups of microbatches, forwards run ahead",
       {{"stages_per_rank", "1"}, {"loop_batch", "M"}, {"prefetch", "0"}, {"execution", "loop"}},
       make_pfeife},
      {"1f1b-v", "1f1b over a V: two thirds of its memory, with a larger bubble", {}, make_1f1b_v},
      {"hanayo", "waves: several times through the ranks and back, shorter stages", {{"stages_per_rank", "4"}}, make_hanayo},
      {"chimera", "two 1f1b pipelines against each other, every stage twice", {}, make_chimera},
      // Backwards split into input and weight gradient.
      {"zb-h1", "split backward, weight gradients fill the end; memory of 1f1b", {}, make_zb_h1},
      {"zb-h2", "as zb-h1, further ahead: nearly no bubble for twice the activations", {}, make_zb_h2},
      {"interleaved-zero-bubble",
       "interleaved-1f1b with the split backward of zb-h1",
       {{"stages_per_rank", "2"}},
       make_interleaved_zero_bubble},
      {"group-interleaved",
       "interleaved in short turns with split backward: less memory for a little bubble",
       {{"stages_per_rank", "2"}, {"group", "P"}},
       make_group_interleaved},
      {"gis-h", "group-interleaved in the shortest turns: about half of its activations", {{"stages_per_rank", "2"}}, make_gis_h},
      {"zb-v", "split backward over a V: no bubble at even costs with the memory of 1f1b", {}, make_zb_v},
      // The same, searched for given costs within a memory limit (activations a rank may hold).
      {"zb-auto",
       "zb-h1 searched: the shortest step found within a memory limit",
       {{"memory", "P"}, {"effort", "100"}},
       make_zb_auto},
      {"zb-v-auto", "zb-v searched: the shortest step found within a memory limit", {{"memory", "2P"}}, make_zb_v_auto},
      {"v-half", "zb-v searched within about half of its memory", {}, make_v_half},
      {"v-min", "zb-v searched within about a third of its memory", {}, make_v_min},
      {"v-auto", "zb-v searched within any memory", {{"memory", "2P"}}, make_v_auto},
      // Forwards and backwards in groups that overlap.
      {"dualpipe", "two chains against each other: forwards of one overlap backwards of the other", {}, make_dualpipe},
      {"dualpipe-v", "dualpipe in a V, with every stage once", {}, make_dualpipe_v},
      {"stp", "V whose forwards and backwards overlap, to hide tensor-parallel communication", {}, make_stp},
  };
  return table;
}

const ScheduleFamily* find_family(std::string_view name) {
  for (const ScheduleFamily& family : schedule_families())
    if (family.name == name) return &family;
  return nullptr;
}

std::string_view source_of(const ScheduleFamily& family) {
  constexpr std::string_view kControllable = "Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024";
  constexpr std::string_view kZeroBubble = "Qi et al., Zero bubble pipeline parallelism, ICLR 2024";
  constexpr std::string_view kOffload = "Wan et al., PipeOffload, ICML 2025";
  constexpr std::string_view kDeepSeek = "DeepSeek-V3 technical report, 2024; github.com/deepseek-ai/DualPipe";
  constexpr std::pair<std::string_view, std::string_view> kSources[] = {
      {"gpipe", "Huang et al., GPipe, NeurIPS 2019"},
      {"1f1b", "Fan et al., DAPPLE, PPoPP 2021; Narayanan et al., ICML 2021"},
      {"kfkb", "Wang et al., Ada-Grouper, arXiv 2303.01675, 2023"},
      {"seq-1f1b", "Sun et al., Seq1F1B, arXiv 2406.03488, 2024"},
      {"interleaved-1f1b", "Narayanan et al., SC 2021; Megatron-LM"},
      {"looped-bfs", "Lamy-Poirier, Breadth-first pipeline parallelism, MLSys 2023"},
      {"pfeife", "Pfeife, ICML 2025"},
      {"1f1b-v", kControllable},
      {"hanayo", "Liu et al., Hanayo, SC 2023"},
      {"chimera", "Li and Hoefler, Chimera, SC 2021"},
      {"zb-h1", kZeroBubble},
      {"zb-h2", kZeroBubble},
      {"interleaved-zero-bubble", "PyTorch, ScheduleInterleavedZeroBubble"},
      {"group-interleaved", kOffload},
      {"gis-h", kOffload},
      {"zb-v", kControllable},
      {"zb-auto", kZeroBubble},
      {"zb-v-auto", kControllable},
      {"v-half", kControllable},
      {"v-min", kControllable},
      {"v-auto", kControllable},
      {"dualpipe", kDeepSeek},
      {"dualpipe-v", kDeepSeek},
      {"stp", "Qi et al., Synergistic tensor and pipeline parallelism, NeurIPS 2025"},
  };
  for (const auto& [name, source] : kSources)
    if (name == family.name) return source;
  return "";
}

std::optional<std::string> default_option(const ScheduleFamily& family, std::string_view key) {
  for (const auto& [name, value] : family.options)
    if (name == key) return std::string(value);
  return std::nullopt;
}

namespace {

const ScheduleFamily& family_named(std::string_view name) {
  if (const ScheduleFamily* family = find_family(name)) return *family;
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  throw InputError(fmt::format("unknown schedule '{}'{}", name, suggestion_or_list(name, names)));
}

// Options are the family's own and those of every family.
void check_options(const ScheduleFamily& family, const ScheduleOptions& options) {
  std::vector<std::string> own, all;
  for (const auto& option : family.options) own.emplace_back(option.first);
  all = own;
  for (const auto& option : memory_options()) all.emplace_back(option.first);
  const std::string known = own.empty() ? "; it has no options" : fmt::format("; there are {}", fmt::join(own, ", "));
  for (const auto& option : options)
    if (std::find(all.begin(), all.end(), option.first) == all.end())
      throw InputError(
          fmt::format("unknown option '{}' of schedule {}{}", option.first, family.name, suggestion(option.first, all, known)));
}

void check_size(int ranks, int microbatches, const ScheduleOptions& options) {
  if (ranks < 1 || ranks > kMaxRanks) throw InputError(fmt::format("ranks must be 1 to {}, not {}", kMaxRanks, ranks));
  if (microbatches < 1 || microbatches > kMaxMicrobatches)
    throw InputError(fmt::format("microbatches must be 1 to {}, not {}", kMaxMicrobatches, microbatches));
  const long long per_rank = integer_option(options, "stages_per_rank", 1, 1);
  const long long splits = integer_option(options, "sequence_splits", 1, 1);
  const double actions = 3.0 * ranks * static_cast<double>(per_rank) * static_cast<double>(splits) * microbatches;  // F, I, W
  if (actions > kMaxActions)
    throw InputError(
        fmt::format("{} ranks with {} stage{} each and {} microbatches{} make up to {:.6g} million actions; at most "
                    "{:g} million are taken, what 8 GB of memory hold",
                    ranks, per_rank, per_rank == 1 ? "" : "s", microbatches,
                    splits > 1 ? fmt::format(" in {} slices", splits) : "", actions / 1e6, kMaxActions / 1e6));
}

}  // namespace

Schedule make_schedule(std::string_view name, int ranks, int microbatches, const ScheduleOptions& options,
                       const PassCosts& costs) {
  const ScheduleFamily& family = family_named(name);
  check_options(family, options);
  check_size(ranks, microbatches, options);
  Schedule schedule = family.searched() ? std::get<ScheduleFamily::Searched>(family.generate)(ranks, microbatches, options, costs)
                                        : std::get<ScheduleFamily::Fixed>(family.generate)(ranks, microbatches, options);
  return apply_memory_options(std::move(schedule), options, costs);
}

}  // namespace panpipe
