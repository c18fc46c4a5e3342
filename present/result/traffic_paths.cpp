#include "present/result/traffic_paths.hpp"

#include <set>

namespace panpipe {
namespace {

class Paths {
 public:
  Paths(const Cluster& cluster, const Plan& plan, const Timeline& timeline)
      : cluster_(cluster), plan_(plan), timeline_(timeline) {}

  std::vector<std::pair<std::string, std::vector<std::string>>> find() {
    for (int rank = 0; rank < plan_.pipeline; ++rank)
      for (int d = 0; d < plan_.data; ++d)
        for (int t = 0; t < plan_.tensor; ++t) {
          note(tensor_, plan_.device(rank, d, t), plan_.device(rank, d, (t + 1) % plan_.tensor));
          replicas(rank, d, t);
        }
    for (const std::vector<int>& chain : plan_.schedule.chains)
      for (std::size_t i = 1; i < chain.size(); ++i) hand_over(rank_of(chain[i - 1]), rank_of(chain[i]));
    if (plan_.data == 1) shared_weights();
    add("tensor", tensor_);
    add("pipeline", pipeline_);
    add("data", data_);
    return std::move(found_);
  }

 private:
  int rank_of(int stage) const { return plan_.schedule.stage_to_rank[static_cast<std::size_t>(stage)]; }

  void note(std::set<PathClass>& classes, int from, int to) {
    if (from != to) classes.insert(cluster_.route(from, to).path);
  }

  // A shard group lies side by side; who holds the same shard is a group's width away.
  void replicas(int rank, int d, int t) {
    const int shard = plan_.zero > 0 ? plan_.shard_group() : plan_.data, first = d / shard * shard;
    note(data_, plan_.device(rank, d, t), plan_.device(rank, first + (d - first + 1) % shard, t));
    note(data_, plan_.device(rank, d, t), plan_.device(rank, (d + shard) % plan_.data, t));
  }

  void hand_over(int from, int to) {
    if (from == to) return;
    for (int d = 0; d < plan_.data; ++d)
      for (int t = 0; t < plan_.tensor; ++t) note(pipeline_, plan_.device(from, d, t), plan_.device(to, d, t));
  }

  void shared_weights() {
    std::set<int> devices;
    for (const Span& span : timeline_.spans)
      if (span.lane == Lane::Data) devices.insert(span.device);
    const std::vector<int> ring(devices.begin(), devices.end());
    for (std::size_t i = 0; i < ring.size(); ++i) note(data_, ring[i], ring[(i + 1) % ring.size()]);
  }

  void add(const char* traffic, const std::set<PathClass>& classes) {
    if (classes.empty()) return;
    std::vector<std::string> names;
    for (const PathClass path : classes) names.emplace_back(name_of(path));
    found_.emplace_back(traffic, std::move(names));
  }

  const Cluster& cluster_;
  const Plan& plan_;
  const Timeline& timeline_;
  std::set<PathClass> tensor_, pipeline_, data_;
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

}  // namespace

std::vector<std::pair<std::string, std::vector<std::string>>> traffic_paths(const Cluster& cluster, const Plan& plan,
                                                                            const Timeline& timeline) {
  return Paths(cluster, plan, timeline).find();
}

}  // namespace panpipe
