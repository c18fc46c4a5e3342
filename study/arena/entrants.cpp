#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/text/characters.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "schedule/find_family.hpp"
#include "schedule/rolling.hpp"
#include "study/arena/arena.hpp"

namespace panpipe::study {
namespace {

constexpr double kTera = 1e12;
constexpr const char *kWaveSearch = "wave-search", *kLoopSearch = "loop-search";

void check_search_options(const ScheduleOptions& options) {
  const std::vector<std::string> known = {"stages_per_rank", "held", "comm", "effort", "seed"};
  for (const auto& [key, value] : options) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw InputError(fmt::format("a search has no option '{}'{}", key, suggestion_or_list(key, known)));
    const auto number = parse_number(value);
    if (!number.value || !(*number.value >= 0) || *number.value > 1e6)
      throw InputError(fmt::format("option '{}' of a search is a number from 0 to 1e6, not '{}'", key, value));
  }
}

bool is_order_file(const std::string& name) {
  if (find_family(name) != nullptr) return false;
  struct stat status {};
  return name.find('/') != std::string::npos || name.ends_with(".csv") || stat(name.c_str(), &status) == 0;
}

Entrant of_family(std::string_view family, ScheduleOptions options) {
  std::string name(family);
  for (const auto& [key, value] : options) name += fmt::format(" {}={}", key, value);
  return {std::move(name), std::string(family), std::move(options), std::nullopt};
}

}  // namespace

std::vector<Entrant> all_families() {
  std::vector<Entrant> entrants;
  for (const ScheduleFamily& family : schedule_families()) {
    if (is_stale_family(family.name)) continue;
    if (default_option(family, "forward_slots")) continue;  // its slots are not equal shares of the model
    if (family.name == "weipipe") continue;                 // its ranks exchange weights, which the arena's units do not have
    entrants.push_back(of_family(family.name, {}));
    const auto stages = default_option(family, "stages_per_rank");
    if (!stages) continue;
    for (const char* other : {"2", "4"})
      if (*stages != other) entrants.push_back(of_family(family.name, {{"stages_per_rank", other}}));
  }
  return entrants;
}

Entrant read_entrant(const std::string& text) {
  if (is_order_file(text)) {
    Schedule order = load_schedule_csv(text);
    return {text.substr(text.find_last_of('/') + 1), "", {}, std::move(order)};
  }
  const std::vector<std::string> parts = split_text(text, ',');
  ScheduleOptions options;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(fmt::format("behind the family {} an option is KEY=VALUE, as in {},stages_per_rank=4, not '{}'", parts[0],
                                   "interleaved-1f1b", parts[i]));
    if (!options.emplace(parts[i].substr(0, equals), parts[i].substr(equals + 1)).second)
      throw InputError(fmt::format("option '{}' of {} is given twice", parts[i].substr(0, equals), parts[0]));
  }
  if (parts[0] == kWaveSearch || parts[0] == kLoopSearch) {
    check_search_options(options);
    return of_family(parts[0], std::move(options));
  }
  check_options(parts[0], options);
  if (is_stale_family(parts[0]))
    throw InputError(
        fmt::format("{} has no flush: what a step of it takes is no step of the others, and it trains something else", parts[0]));
  return of_family(parts[0], std::move(options));
}

const std::vector<std::string>& search_families() {
  static const std::vector<std::string> names = {kWaveSearch, kLoopSearch};
  return names;
}

bool is_search(const Entrant& entrant) { return entrant.family == kWaveSearch || entrant.family == kLoopSearch; }

// A rank's share is 8 blocks, of Llama 3 8B (32 blocks on 4 ranks; hidden 4096, ffn 14336, 8 of 32 heads of keys and values) or 9
// of GPT-2 large (hidden 1280). Per token and block, in MFLOP: products 2 x 218.1 M parameters = 436.2 in each pass; causal
// attention 2 x sequence x hidden in the forward (two products, half of the square) and 2.5 times that in I (five), nothing in W.
// 8192 tokens: 67.1, so F 503.3, I 604.0, W 436.2; 32,768: 268.4, so F 704.6, I 1107.3, W 436.2. Recompute adds F to I. Under
// LoRA (rank 16 on all products: 1.31 M parameters a block) W is 2.6 and I 2.6 more. Handed over: tokens x hidden x 2 bytes.
const std::vector<CostRatio>& cost_ratios() {
  static const std::vector<CostRatio> table = {
      {"even", 1, 1, Flops(0.374 * kTera), Bytes(2'621'440),
       "F = I = W, as papers draw them; sizes of GPT-2 large: 9 blocks a rank, 1024 tokens"},
      {"8k", 1.2, 0.867, Flops(33.0 * kTera), Bytes(67'108'864), "Llama 3 8B, 8 blocks a rank, 8192 tokens"},
      {"32k", 1.571, 0.619, Flops(184.7 * kTera), Bytes(268'435'456), "Llama 3 8B, 8 blocks a rank, 32,768 tokens"},
      {"8k-recompute", 2.2, 0.867, Flops(33.0 * kTera), Bytes(67'108'864), "as 8k, full recompute in front of I"},
      {"8k-lora", 1.205, 0.005, Flops(33.0 * kTera), Bytes(67'108'864), "as 8k, LoRA of rank 16: hardly any weight gradient"},
  };
  return table;
}

CostRatio read_cost_ratio(const std::string& text) {
  for (const CostRatio& ratio : cost_ratios())
    if (ratio.name == text) return ratio;
  const std::vector<std::string> parts = split_text(text, ':');
  std::vector<double> numbers;
  for (const std::string& part : parts) {
    const auto number = parse_number(part);
    if (number.value && std::isfinite(*number.value) && *number.value >= 0) numbers.push_back(*number.value);
  }
  if (numbers.size() == 3 && parts.size() == 3 && numbers[0] > 0) {
    CostRatio ratio = cost_ratios().front();
    ratio.name = text;
    ratio.I = numbers[1] / numbers[0];
    ratio.W = numbers[2] / numbers[0];
    ratio.origin = fmt::format("F:I:W as given; forward and hand-over of '{}'", cost_ratios().front().name);
    return ratio;
  }
  std::vector<std::string> names;
  for (const CostRatio& ratio : cost_ratios()) names.push_back(ratio.name);
  throw option_fault("cost-ratios", fmt::format("there is no '{}'{}", text, suggestion_or_list(text, names)),
                     "or three numbers, F:I:W, as in 10:12:8", code::kUnknownName);
}

}  // namespace panpipe::study
