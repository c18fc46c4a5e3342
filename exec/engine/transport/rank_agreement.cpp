// Ranks must have equal inputs; a message states which rank has which.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {
namespace {

// "ranks 0, 2" or "rank 1"
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
  return text;
}

}  // namespace

void agree(Transport& transport, const std::vector<Agreement>& facts, Clock::duration deadline) {
  nlohmann::json mine = nlohmann::json::array();
  for (const Agreement& fact : facts) mine.push_back(fact.value);
  std::vector<nlohmann::json> all;
  for (const std::string& text : transport.all_gather(mine.dump(), deadline, "comparing what the ranks were given"))
    all.push_back(nlohmann::json::parse(text));
  for (std::size_t f = 0; f < facts.size(); ++f) {
    std::map<std::string, std::vector<std::size_t>> holders;
    for (std::size_t rank = 0; rank < all.size(); ++rank) holders[all[rank].at(f)].push_back(rank);
    if (holders.size() < 2) continue;
    std::string text = fmt::format("the ranks do not have the same {}:", facts[f].name);
    for (const auto& [value, ranks] : holders) text += fmt::format("\n  {}: {}", ranks_text(ranks), value);
    // Every rank finds the same. None leaves before all have read, or the others would hear of its end first.
    try {
      transport.barrier(deadline, "telling what the ranks were given");
    } catch (const std::exception&) {  // a peer that is gone already: what is known is reported
    }
    throw InputError(text + "\n  give every rank the same files and options");
  }
}

}  // namespace panpipe::exec
