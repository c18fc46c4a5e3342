#include "sim/congruence.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/bits.hpp"
#include "base/index.hpp"

#include <fmt/format.h>

namespace panpipe::sim {
namespace {

// Signatures are 64-bit hashes; sums of mixed values make them independent of order. With 10^5 signatures two different ones
// meet with probability 10^-9.
std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0) {  // splitmix64's finaliser
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
std::uint64_t mix(double a) { return mix(bits_of(a)); }

// Dense numbers in order of first appearance.
int renumber(const std::vector<std::uint64_t>& signatures, std::vector<std::int32_t>& numbers) {
  std::unordered_map<std::uint64_t, std::int32_t> known;
  numbers.resize(signatures.size());
  for (std::size_t i = 0; i < signatures.size(); ++i)
    numbers[i] = known.try_emplace(signatures[i], static_cast<std::int32_t>(known.size())).first->second;
  return static_cast<int>(known.size());
}

// A signature of the users of each resource, by their colours; 0: none.
std::vector<std::uint64_t> users_of_resources(const Platform& platform, const std::vector<std::int32_t>& colour) {
  std::vector<std::uint64_t> users(platform.cluster().resources.size(), 0);
  const auto& paths = platform.paths();
  for (std::size_t p = 0; p < paths.size(); ++p)
    for (std::size_t c = 0; c < colour.size(); ++c)
      for (const Hop& hop : paths[p].routes[c].hops)
        users[hop.resource] += mix(mix(p, static_cast<std::uint64_t>(colour[c])), static_cast<std::uint64_t>(hop.uses));
  return users;
}

class Colouring {
 public:
  explicit Colouring(const Platform& platform) : platform_(platform), colour_(at(platform.pipeline_groups()), 0) {}

  std::vector<std::int32_t> stable() {
    for (int colours = 1;;) {
      const int refined = refine();
      if (refined == colours) return colour_;
      colours = refined;
    }
  }

 private:
  int refine() {
    std::vector<std::uint64_t> resource = users_of_resources(platform_, colour_);
    const auto& paths = platform_.paths();
    for (std::size_t r = 0; r < resource.size(); ++r)
      resource[r] = mix(resource[r], mix(platform_.cluster().resources[r].bandwidth.base()));
    std::vector<std::uint64_t> group(colour_.size());
    std::array<std::vector<std::uint64_t>, kAmong> company;
    company.fill(std::vector<std::uint64_t>(colour_.size(), 0));
    for (std::size_t c = 0; c < colour_.size(); ++c) {
      const auto own = static_cast<std::uint64_t>(colour_[c]);
      for (const Among among : kAmongAll) company[index_of(among)][platform_.group(among, static_cast<int>(c))] += mix(own, 2);
      group[c] = mix(own, 3);
    }
    for (std::size_t p = 0; p < paths.size(); ++p)
      for (std::size_t c = 0; c < colour_.size(); ++c) group[c] += mix(p, route_signature(paths[p].routes[c], resource));
    for (std::size_t c = 0; c < colour_.size(); ++c)
      for (const Among among : kAmongAll)
        group[c] = mix(group[c], company[index_of(among)][platform_.group(among, static_cast<int>(c))]);
    return renumber(group, colour_);
  }

  static std::uint64_t route_signature(const Route& route, const std::vector<std::uint64_t>& resource) {
    std::uint64_t sum = 0;
    for (const Hop& hop : route.hops) sum += mix(resource[hop.resource], static_cast<std::uint64_t>(hop.uses));
    sum = mix(sum, mix(mix(route.latency.base()), mix(route.bandwidth.base())));
    return mix(sum, mix(static_cast<std::uint64_t>(route.path), reinterpret_cast<std::uintptr_t>(route.table.get())));
  }

  const Platform& platform_;
  std::vector<std::int32_t> colour_;
};

// Resources as simulated: one per set of users that differs, with the uses of each (path, class).
class NetworkMaker {
 public:
  NetworkMaker(const Platform& platform, Folding& folding) : platform_(platform), folding_(folding) {}

  void make() {
    number_resources();
    const auto& paths = platform_.paths();
    const auto classes = at(folding_.classes);
    folding_.route.assign(paths.size() * classes, -1);
    std::vector<std::map<std::int32_t, SharedHop>> hops(paths.size() * classes);
    for (std::size_t p = 0; p < paths.size(); ++p)
      for (std::size_t c = 0; c < folding_.class_of.size(); ++c)
        for (const Hop& hop : paths[p].routes[c].hops) {
          const std::int32_t number = number_of_[hop.resource];
          if (first_of_[number] != hop.resource) continue;  // counted at the first of its kind
          SharedHop& shared =
              hops[p * classes + at(folding_.class_of[c])].try_emplace(number, SharedHop{number, 0, 0}).first->second;
          shared.uses += hop.uses;
          ++shared.flows;
        }
    for (std::size_t i = 0; i < hops.size(); ++i) {
      if (hops[i].empty()) continue;
      folding_.route[i] = static_cast<std::int32_t>(folding_.network.routes.size());
      auto& route = folding_.network.routes.emplace_back();
      for (const auto& entry : hops[i]) route.push_back(entry.second);
    }
  }

 private:
  void number_resources() {
    const auto& resources = platform_.cluster().resources;
    const std::vector<std::uint64_t> signature = users_of_resources(platform_, folding_.class_of);
    std::unordered_map<std::uint64_t, std::int32_t> known;
    number_of_.assign(resources.size(), -1);
    const bool folded = folding_.classes < platform_.pipeline_groups();
    for (std::size_t r = 0; r < resources.size(); ++r) {
      if (signature[r] == 0) continue;
      std::uint64_t key = mix(signature[r], mix(resources[r].bandwidth.base()));
      if (!folded) key = r;
      const auto [entry, is_new] = known.try_emplace(key, static_cast<std::int32_t>(known.size()));
      number_of_[r] = entry->second;
      if (is_new) {
        first_of_.push_back(static_cast<std::int32_t>(r));
        folding_.network.resources.push_back({resources[r].name, resources[r].bandwidth.base(), 1});
      } else {
        ++folding_.network.resources[entry->second].alike;
      }
    }
  }

  const Platform& platform_;
  Folding& folding_;
  std::vector<std::int32_t> number_of_;  // of each real resource: the simulated one
  std::vector<std::int32_t> first_of_;   // of each simulated one: its first real resource
};

}  // namespace

Folding fold_groups(const Platform& platform, bool fold) {
  Folding folding;
  const int groups = platform.pipeline_groups();
  if (fold) {
    folding.class_of = Colouring(platform).stable();
  } else {
    for (int c = 0; c < groups; ++c) folding.class_of.push_back(c);
  }
  for (int c = 0; c < groups; ++c) {
    const std::int32_t cls = folding.class_of[c];
    if (at(cls) == folding.group_of.size()) {
      folding.group_of.push_back(c);
      folding.size.push_back(0);
    }
    ++folding.size[cls];
  }
  folding.classes = static_cast<int>(folding.group_of.size());
  // A group is known by its lowest class: groups with equal colours are folded into one.
  const auto number = [&](auto group_of, ClassGroups& made) {
    std::vector<std::uint64_t> lowest(at(groups), ~0ULL), known;
    for (int c = 0; c < groups; ++c)
      lowest[group_of(c)] = std::min(lowest[group_of(c)], static_cast<std::uint64_t>(folding.class_of[c]));
    for (const std::int32_t c : folding.group_of) known.push_back(lowest[group_of(c)]);
    made.members.resize(at(renumber(known, made.of)));
    for (int cls = 0; cls < folding.classes; ++cls) made.members[made.of[cls]].push_back(cls);
  };
  for (const Among among : kAmongAll) number([&](int c) { return platform.group(among, c); }, folding.groups[index_of(among)]);
  number([&](int c) { return platform.pass_group(c); }, folding.pass_groups);
  NetworkMaker(platform, folding).make();
  return folding;
}

std::vector<bool> mergeable_ranks(const Platform& platform, int ranks, const std::vector<double>& rate) {
  constexpr std::int64_t kNobody = -1, kSeveral = -2;
  // Rates come from times rounded to whole picoseconds: a ring that fills its links exactly may seem to exceed them.
  constexpr double kRounding = 1 + 1e-6;
  const auto& resources = platform.cluster().resources;
  std::vector<std::int64_t> owner(resources.size(), kNobody);
  const auto& paths = platform.paths();
  std::vector<bool> mergeable(at(ranks), true);
  std::vector<double> load(resources.size());
  for (std::size_t p = 0; p < paths.size(); ++p) {
    const bool in_passes = paths[p].in_passes();
    std::fill(load.begin(), load.end(), 0);
    for (int c = 0; c < platform.pipeline_groups(); ++c) {
      const std::int64_t user =
          in_passes ? static_cast<std::int64_t>(paths[p].from) * platform.pipeline_groups() + platform.pass_group(c) : kSeveral;
      for (const Hop& hop : paths[p].routes[c].hops) {
        std::int64_t& known = owner[hop.resource];
        known = known == kNobody || known == user ? user : kSeveral;
        // A group's collectives follow one another: its kinds of groups do not add up.
        if (in_passes) load[hop.resource] += hop.uses * rate[p];
        if (in_passes && load[hop.resource] > resources[hop.resource].bandwidth.base() * kRounding)
          mergeable[paths[p].from] = false;
      }
    }
  }
  for (const Path& path : paths)
    if (path.in_passes())
      for (const Route& route : path.routes)
        for (const Hop& hop : route.hops)
          if (owner[hop.resource] == kSeveral) mergeable[path.from] = false;
  return mergeable;
}

}  // namespace panpipe::sim
