#include "present/result/traffic_paths.hpp"

#include <array>
#include <set>
#include <string_view>

#include "costmodel/timeline/device_sums.hpp"

namespace panpipe::present {
namespace {

class Paths {
 public:
  Paths(const Cluster& cluster, const Plan& plan, const Timeline& timeline)
      : cluster_(cluster), plan_(plan), timeline_(timeline) {}

  std::vector<std::pair<std::string, std::vector<std::string>>> find() {
    for (int rank = 0; rank < plan_.pipeline; ++rank)
      for (int position = 0; position < plan_.devices_of_rank(); ++position) {
        for (const Among among : kAmongInPasses) ring(in_passes_[index_of(among)], rank, position, among);
        if (plan_.zero > 0) {
          ring(data_, rank, position, Among::ShardGroup);
          ring(data_, rank, position, Among::Holders);
        } else {
          ring(data_, rank, position, Among::Data);
        }
        if (plan_.experts_apart()) ring(data_, rank, position, Among::ExpertData);
      }
    for (const std::vector<int>& chain : plan_.schedule.chains)
      for (std::size_t i = 1; i < chain.size(); ++i) hand_over(rank_of(chain[i - 1]), rank_of(chain[i]));
    if (plan_.replicas() == 1) shared_weights();
    for (const Among among : kAmongInPasses) add(name_of(among), in_passes_[index_of(among)]);
    add("pipeline", pipeline_);
    add("data", data_);
    return std::move(found_);
  }

 private:
  int rank_of(int stage) const { return plan_.schedule.stage_to_rank[stage]; }

  void note(std::set<PathClass>& classes, int from, int to) {
    if (from != to) classes.insert(cluster_.route(from, to).path);
  }

  // From a device of a rank to the next in the ring of its group.
  void ring(std::set<PathClass>& classes, int rank, int position, Among among) {
    const int next = plan_.group(among).next_of(position), first = rank * plan_.devices_of_rank();
    note(classes, plan_.devices[first + position], plan_.devices[first + next]);
  }

  void hand_over(int from, int to) {
    if (from == to) return;
    for (int d = 0; d < plan_.replicas(); ++d)
      for (int t = 0; t < plan_.tensor; ++t) note(pipeline_, plan_.device(from, d, t), plan_.device(to, d, t));
  }

  void shared_weights() {
    std::set<int> devices;
    for (const Span& span : timeline_.spans)
      if (counted_lane(span.lane, span.action.kind) == Lane::Data) devices.insert(span.device);
    const std::vector<int> ring(devices.begin(), devices.end());
    for (std::size_t i = 0; i < ring.size(); ++i) note(data_, ring[i], ring[(i + 1) % ring.size()]);
  }

  void add(std::string_view traffic, const std::set<PathClass>& classes) {
    if (classes.empty()) return;
    std::vector<std::string> names;
    for (const PathClass path : classes) names.emplace_back(name_of(path));
    found_.emplace_back(traffic, std::move(names));
  }

  const Cluster& cluster_;
  const Plan& plan_;
  const Timeline& timeline_;
  std::array<std::set<PathClass>, kAmongPasses> in_passes_;
  std::set<PathClass> pipeline_, data_;
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

}  // namespace

std::vector<std::pair<std::string, std::vector<std::string>>> traffic_paths(const Cluster& cluster, const Plan& plan,
                                                                            const Timeline& timeline) {
  return Paths(cluster, plan, timeline).find();
}

}  // namespace panpipe::present
