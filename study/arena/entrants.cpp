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

// What ranks exchange inside passes costs nothing here: no unit of the arena prices it. Empty: nothing.
std::string unpriced(std::string_view family, const ScheduleOptions& options) {
  if (family == "weipipe") return "weights that go from rank to rank";
  const auto exchange = options.find("exchange");
  if (family == "slimpipe" && (exchange == options.end() || exchange->second != "off"))
    return "attention that ranks share; exchange=off leaves it out";
  return "";
}

}  // namespace

std::vector<Entrant> all_families() {
  std::vector<Entrant> entrants;
  for (const ScheduleFamily& family : schedule_families()) {
    if (!unpriced(family.name, {}).empty()) continue;
    entrants.push_back(of_family(family.name, {}));
    const auto stages = default_option(family, "stages_per_rank");
    if (!stages) continue;
    for (const char* other : {"2", "4"})
      if (*stages != other) entrants.push_back(of_family(family.name, {{"stages_per_rank", other}}));
  }
  return entrants;
}

std::vector<Entrant> all_cut_vocabularies() {
  std::vector<Entrant> entrants;
  for (const ScheduleFamily& family : schedule_families()) {
    ScheduleOptions options = {{"vocabulary", "stages"}};
    try {
      make_schedule(family.name, 2, 4, options);
    } catch (const InputError&) {
      continue;  // the places of its passes are not known
    }
    entrants.push_back(of_family(family.name, std::move(options)));
  }
  return entrants;
}

Entrant entrant_of(FamilyText family) {
  if (family.family == kWaveSearch || family.family == kLoopSearch)
    check_search_options(family.options);
  else
    check_options(family.family, family.options);
  if (const std::string what = unpriced(family.family, family.options); !what.empty())
    throw InputError(fmt::format("no unit of the arena prices what {} exchanges: {}", family.family, what));
  return of_family(family.family, std::move(family.options));
}

Entrant read_entrant(const std::string& text) {
  if (is_order_file(text)) {
    Schedule order = load_schedule_csv(text);
    return {text.substr(text.find_last_of('/') + 1), "", {}, std::move(order)};
  }
  return entrant_of(read_family_text(text, ','));
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
// The head of 128,256 words: 2 x 4096 x 128,256 = 1050.7 in each pass, of 8 x 503.3. Kept of a block of Llama: 152,704 bytes a
// token (panpipe check --costs: 361 + 832 MiB for 8192 tokens), under recompute its input; of GPT-2: 34 x hidden (Korthikanti et
// al., 2205.05198, without attention's scores). Weights: 2 bytes a parameter.
constexpr Bytes kLlamaWeights(8 * 2 * 218'112'000LL);
constexpr std::int64_t kLlamaKept = 8LL * 152'704;

const std::vector<CostRatio>& cost_ratios() {
  static const std::vector<CostRatio> table = [] {
    std::vector<CostRatio> all = {
        {"even", 1, 1, Flops(0.374 * kTera), Bytes(2'621'440), Bytes(9LL * 34 * 1280 * 1024), Bytes(9LL * 2 * 19'700'000),
         "F = I = W, as papers draw them; sizes of GPT-2 large: 9 blocks a rank, 1024 tokens"},
        {"8k", 1.2, 0.867, Flops(33.0 * kTera), Bytes(67'108'864), Bytes(kLlamaKept * 8192), kLlamaWeights,
         "Llama 3 8B, 8 blocks a rank, 8192 tokens"},
        {"32k", 1.571, 0.619, Flops(184.7 * kTera), Bytes(268'435'456), Bytes(kLlamaKept * 32'768), kLlamaWeights,
         "Llama 3 8B, 8 blocks a rank, 32,768 tokens"},
        {"8k-recompute", 2.2, 0.867, Flops(33.0 * kTera), Bytes(67'108'864), Bytes(8 * 67'108'864LL), kLlamaWeights,
         "as 8k, full recompute in front of I"},
        {"8k-lora", 1.205, 0.005, Flops(33.0 * kTera), Bytes(67'108'864), Bytes(kLlamaKept * 8192), kLlamaWeights,
         "as 8k, LoRA of rank 16: hardly any weight gradient"},
    };
    CostRatio with_head = all[1];
    with_head.name = "8k-vocabulary";
    with_head.head = 0.261;
    with_head.origin = "as 8k, with a head of 128,256 words behind the last stage";
    all.push_back(std::move(with_head));
    return all;
  }();
  return table;
}

namespace {

// A positive number, which `what` is.
double cost_number(const std::string& what, const std::string& text, bool positive) {
  const auto number = parse_number(text);
  constexpr double kMost = 1e6;
  if (!number.value || !(*number.value >= 0) || (positive && !(*number.value > 0)) || *number.value > kMost)
    throw option_fault("cost-ratios", fmt::format("{} is a number {} {:g}, not '{}'", what,
                                                  positive ? "above 0, up to" : "from 0 to", kMost, text));
  return *number.value;
}

// "head=0.3", "copy=2" or "lengths=2/1/1".
void add_cost(const std::string& text, CostRatio& ratio) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string key = text.substr(0, equals), value = equals < text.size() ? text.substr(equals + 1) : "";
  if (key == "head") {
    ratio.head = cost_number(key, value, false);
  } else if (key == "copy") {
    ratio.copy = cost_number(key, value, false);
  } else if (key == "lengths") {
    ratio.lengths.clear();
    for (const std::string& length : split_text(value, '/')) ratio.lengths.push_back(cost_number("a length", length, true));
  } else {
    const std::vector<std::string> known = {"head", "copy", "lengths"};
    throw option_fault("cost-ratios", fmt::format("behind the ratio there is no '{}'{}", key, suggestion_or_list(key, known)),
                       "as in 8k:head=0.3:copy=2:lengths=2/1/1", code::kUnknownName);
  }
}

std::optional<CostRatio> named_or_given(const std::vector<std::string>& parts) {
  for (const CostRatio& ratio : cost_ratios())
    if (ratio.name == parts[0]) return ratio;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, parts.size()); ++i) {
    const auto number = parse_number(parts[i]);
    if (number.value && std::isfinite(*number.value) && *number.value >= 0) numbers.push_back(*number.value);
  }
  if (numbers.size() != 3 || !(numbers[0] > 0)) return std::nullopt;
  CostRatio ratio = cost_ratios().front();
  ratio.I = numbers[1] / numbers[0];
  ratio.W = numbers[2] / numbers[0];
  ratio.origin = fmt::format("F:I:W as given; forward and hand-over of '{}'", cost_ratios().front().name);
  return ratio;
}

}  // namespace

CostRatio read_cost_ratio(const std::string& text) {
  const std::vector<std::string> parts = split_text(text, ':');
  if (std::optional<CostRatio> ratio = named_or_given(parts)) {
    const bool named = parts[0] == ratio->name;
    for (std::size_t i = named ? 1 : 3; i < parts.size(); ++i) add_cost(parts[i], *ratio);
    ratio->name = text;
    return *std::move(ratio);
  }
  std::vector<std::string> names;
  for (const CostRatio& ratio : cost_ratios()) names.push_back(ratio.name);
  throw option_fault("cost-ratios", fmt::format("there is no '{}'{}", text, suggestion_or_list(text, names)),
                     "or three numbers, F:I:W, as in 10:12:8", code::kUnknownName);
}

}  // namespace panpipe::study
