// `experts:`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/files/files_read.hpp"
#include "base/input/bound_key.hpp"
#include "base/text/counted.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

constexpr std::string_view kLoad = "models/expert-parallelism.md#what-a-layer-does";
constexpr std::string_view kHistogram = "models/expert-parallelism.md#histograms-and-placement";
const Choices<ExpertPlacement> kPlacements = {{"contiguous", ExpertPlacement::Contiguous},
                                              {"balanced", ExpertPlacement::Balanced}};

const std::vector<BoundKey<ExpertLoad>>& expert_rows() {
  static const std::vector<BoundKey<ExpertLoad>> rows = {
      bound(&ExpertLoad::imbalance, "imbalance", "rows of the busiest rank over the mean of all; at least 1",
            form::number(Sign::Positive), Otherwise{"1: tokens are spread evenly"}, Page{kLoad}, Example{"1.5"}),
      bound(&ExpertLoad::capacity, "capacity", "rows that an expert takes over the mean", form::number(Sign::Positive),
            Otherwise{"no limit: none is dropped"}, Page{kLoad}, Example{"1.25"}),
      bound(&ExpertLoad::padded, "padded", "with a capacity, experts with fewer rows are filled up to it", Page{kLoad}),
      bound(&ExpertLoad::zipf, "zipf", "exponent s of a histogram in which the i-th most wanted expert gets 1 / i^s",
            form::number(Sign::NonNegative), Otherwise{"as `tokens` or `imbalance` state"}, Page{kHistogram}, Example{"0.5"}),
      {declare("tokens", "tokens of each expert, in any unit; or such a list for each layer; or a file with a line for each",
               form::file(), items(form::number(Sign::NonNegative), items(form::number(Sign::NonNegative))),
               Otherwise{"tokens are spread evenly"}, Page{kHistogram})},
      {declare("placement", "experts lie on ranks as they are numbered, or dealt out by load, or in the listed order",
               Words{names_of(kPlacements)}, items(form::whole(0)), Fallback{"contiguous"}, Page{kHistogram})}};
  return rows;
}

// A line of a histogram, at `where`. Logs what it cannot be.
void add_line(std::vector<double> line, const Node& at, const std::string& where, ReadLog& log, ExpertLoad& load) {
  if (line.empty()) return;
  if (!(std::accumulate(line.begin(), line.end(), 0.0) > 0))
    log.error(at, where + "no expert gets a token", "state the tokens of each expert, in any unit");
  else if (!load.tokens.empty() && load.tokens.front().size() != line.size())
    log.error(at, fmt::format("{}{} numbers, and {} before: each line has one for each expert", where, line.size(),
                              load.tokens.front().size()));
  else
    load.tokens.push_back(std::move(line));
}

// Numbers between commas, spaces or tabs, a line for each layer. A first line of words is a heading, # begins a comment.
void read_histogram_file(const Node& node, ReadLog& log, ExpertLoad& load) {
  const auto path = read_file_reference(node, log, "histogram of experts");
  if (!path) return;
  report_file_read(*path);
  std::ifstream file(*path);
  int number = 0;
  for (std::string text; std::getline(file, text) && !log.has_errors();) {
    ++number;
    text.erase(std::min(text.find('#'), text.size()));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == ',' || c == ';'; }, ' ');
    std::istringstream words(text);
    std::vector<double> line;
    const std::string where = fmt::format("{}:{}: ", *path, number);
    for (std::string word; words >> word;) {
      char* end = nullptr;
      const double value = std::strtod(word.c_str(), &end);
      if (*end == '\0' && value >= 0 && value < 1e18)
        line.push_back(value);
      else if (load.tokens.empty() && line.empty() && number == 1)
        break;
      else
        log.error(node, fmt::format("{}'{}' is no number of tokens", where, word), "each line has the tokens of each expert");
    }
    add_line(std::move(line), node, where, log, load);
  }
  if (load.tokens.empty() && !log.has_errors())
    log.error(node, *path + " has no numbers", "each line has the tokens of each expert");
}

void read_tokens(MapReader& reader, ExpertLoad& load) {
  const Node* node = reader.find("tokens");
  if (node == nullptr) return;
  ReadLog& log = reader.log();
  const auto numbers = [&](const Node& list) {
    std::vector<double> line;
    for (const auto& item : list.items)
      if (const auto value = read_number(*item, log, Sign::NonNegative)) line.push_back(*value);
    return line;
  };
  if (node->kind == NodeKind::Scalar)
    read_histogram_file(*node, log, load);
  else if (node->kind == NodeKind::Sequence && !node->items.empty() && node->items.front()->kind == NodeKind::Sequence)
    for (const auto& item : node->items) add_line(numbers(*item), *item, "", log, load);
  else if (node->kind == NodeKind::Sequence && !node->items.empty())
    add_line(numbers(*node), *node, "", log, load);
  else
    log.error(*node, "the tokens of each expert are a list, a list for each layer, or a file with a line for each",
              "as in 'tokens: [120, 80, 95, 105]'");
  if (!load.tokens.empty() && node->kind == NodeKind::Scalar) log.resolved(node->path, node->text, origin_of(*node));
}

void read_expert_placement(MapReader& reader, ExpertLoad& load) {
  const Node* node = reader.find("placement");
  ReadLog& log = reader.log();
  if (node == nullptr || node->kind != NodeKind::Sequence) {
    load.placement = reader.choice<ExpertPlacement>("placement", kPlacements, ExpertPlacement::Contiguous);
    return;
  }
  load.placement = ExpertPlacement::Given;
  std::vector<bool> placed(node->items.size(), false);
  for (const auto& item : node->items) {
    const auto expert = read_integer(*item, log, 0);
    if (!expert) continue;
    if (*expert >= std::ssize(placed) || placed[static_cast<std::size_t>(*expert)])
      log.error(*item, fmt::format("a placement lists each of its {} once, numbered from 0; {} is {}",
                                   counted(std::ssize(placed), "expert"), *expert,
                                   *expert >= std::ssize(placed) ? "none of them" : "listed before"));
    else
      placed[static_cast<std::size_t>(*expert)] = true;
    load.order.push_back(*expert);
  }
}

// One statement of how tokens fall.
void check_load(const Node& node, ReadLog& log, const ExpertLoad& load) {
  if ((load.imbalance ? 1 : 0) + (load.tokens.empty() ? 0 : 1) + (load.zipf ? 1 : 0) > 1)
    log.error(node, "'imbalance', 'tokens' and 'zipf' each state how tokens fall on experts", "state one of them");
  if (load.placement != ExpertPlacement::Contiguous && !load.has_histogram())
    log.error_at_key(node, "placement", "where every expert gets as many tokens, each placement is like another",
                     "state 'tokens' or 'zipf', or leave it out");
  if (!load.padded && !load.capacity)
    log.error_at_key(node, "padded", "without a capacity no expert is filled up", "state a capacity, or leave it out");
}

}  // namespace

Key experts_key() {
  return declare("experts", "how tokens are spread over experts", Inside{declared(expert_rows())},
                 Page{"models/expert-parallelism.md"}, InExports::Reported);
}

ExpertLoad read_expert_load(MapReader& scenario, const Degrees& degrees) {
  ExpertLoad load;
  const Node* node = scenario.find("experts");
  if (node == nullptr) return load;
  ReadLog& log = scenario.log();
  MapReader reader(*node, log);
  read_keys(reader, expert_rows(), load);
  read_tokens(reader, load);
  read_expert_placement(reader, load);
  if (const Node* imbalance = reader.find("imbalance"); imbalance != nullptr && *load.imbalance > 0) {
    if (*load.imbalance < 1)
      log.error(*imbalance, fmt::format("an imbalance of {} is below 1", *load.imbalance),
                "it is the rows of the busiest rank over the mean of all: 1 where tokens fall evenly");
    else if (degrees.expert > 1 && *load.imbalance > degrees.expert)
      log.error(*imbalance,
                fmt::format("an imbalance of {} over {} ranks: one of them would have more rows than there are", *load.imbalance,
                            degrees.expert),
                fmt::format("where all rows go to one rank, it is parallel.expert, {}", degrees.expert));
  }
  if (node->kind == NodeKind::Map && node->entries.empty())
    log.error(*node, "'experts' says nothing", "state an imbalance, a capacity, or both");
  check_load(*node, log, load);
  reader.finish();
  return load;
}

}  // namespace panpipe
