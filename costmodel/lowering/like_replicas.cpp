#include "costmodel/lowering/like_replicas.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

std::vector<int> devices_of(const Plan& plan, int replica) {
  std::vector<int> devices;
  for (int rank = 0; rank < plan.pipeline; ++rank)
    for (int t = 0; t < plan.tensor; ++t) devices.push_back(plan.device(rank, replica, t));
  return devices;
}

std::vector<int> lengths_of(const Plan& plan, int replica) {
  std::vector<int> lengths;
  if (!plan.lengths.empty())
    for (int m = 0; m < plan.schedule.microbatches; ++m) lengths.push_back(plan.length_of(replica, m));
  return lengths;
}

// Where a replica's devices lie, and the groups that its passes communicate in.
std::vector<int> form_of(const Plan& plan, const Occupancy& occupancy, int replica) {
  std::vector<int> form = occupancy.form_of(devices_of(plan, replica));
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    const std::vector<int> more = occupancy.form_of(PassGroups(plan, plan.devices, rank, replica));
    form.insert(form.end(), more.begin(), more.end());
  }
  return form;
}

bool copies_to_host(const Scenario& scenario, const Schedule& schedule) {
  return scenario.offload.any() || !ways_of_stages(schedule).empty() || has_action(schedule, ActionKind::Offload);
}

// The factors that determine a replica's times and limits: types, sites, lengths; of links the path, latency with gather, and
// time; copy bandwidths, where anything lies in the host's memory.
using Traits = std::tuple<std::vector<int>, std::vector<int>, std::vector<int>,
                          std::vector<std::tuple<PathClass, double, double>>, std::vector<double>>;

Traits traits_of(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs, int replica, bool to_host) {
  Lowering lowering{scenario, plan, costs, replica};
  make_stages(lowering);
  make_stage_edges(lowering);
  Traits traits;
  auto& [types, sites, lengths, links, host] = traits;
  for (const int device : devices_of(plan, replica)) {
    types.push_back(scenario.cluster.devices[device].type);
    if (to_host)
      for (const bool away : {true, false}) host.push_back(host_copy_bandwidth(scenario.cluster, device, away).base());
  }
  for (const StageInfo& info : lowering.stages) sites.push_back(info.site);
  lengths = lengths_of(plan, replica);
  for (const TransferLink& link : lowering.graph.links)
    links.emplace_back(link.cost.path, link.latency.base(), link.transfer.base());
  return traits;
}

// The groups of replicas that share a flow. Groups represented by the same replicas are merged: a flow takes equally long in each
// of them, the time of the slowest.
struct ReplicaGroups {
  std::vector<int> of;                    // per replica: its group
  std::vector<std::vector<int>> members;  // per group: the replicas that stand for its own, ascending
};

// `stand_in`: per replica, the one whose times are taken for its own.
ReplicaGroups groups_among(const Plan& plan, Among among, const std::vector<int>& stand_in) {
  const GroupShape shape = plan.group(among);
  std::map<int, std::vector<int>> members_of;
  for (int r = 0; r < plan.replicas(); ++r) members_of[shape.group_of(r * plan.tensor)].push_back(stand_in[r]);
  std::map<int, int> number_of;
  std::map<std::vector<int>, int> known;
  ReplicaGroups groups;
  for (auto& [group, members] : members_of) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    const auto [number, is_new] = known.try_emplace(members, static_cast<int>(known.size()));
    number_of[group] = number->second;
    if (is_new) groups.members.push_back(members);
  }
  for (int r = 0; r < plan.replicas(); ++r) groups.of.push_back(number_of[shape.group_of(r * plan.tensor)]);
  return groups;
}

// The kinds of groups in which replicas share flows, as separate tasks.
std::set<Among> shared_among(const TaskGraph& graph) {
  std::set<Among> found;
  for (const Task& task : graph.tasks)
    if (task.flow >= 0) found.insert(graph.flows[task.flow].among);
  return found;
}

// For each replica the first one with the same times: it is like it, and they wait for like replicas in each of their groups.
// Colours are refined by those of the groups until they are stable.
std::vector<int> equal_replicas(const Plan& plan, const std::vector<int>& like, const std::set<Among>& shared) {
  std::vector<int> equal = like;
  for (std::size_t classes = 0;;) {
    std::vector<std::vector<int>> colours;
    for (const int replica : equal) colours.push_back({replica});
    for (const Among among : shared) {
      const ReplicaGroups groups = groups_among(plan, among, equal);
      for (std::size_t r = 0; r < colours.size(); ++r) colours[r].push_back(groups.of[r]);
    }
    std::map<std::vector<int>, int> first;
    for (std::size_t r = 0; r < colours.size(); ++r) equal[r] = first.try_emplace(colours[r], static_cast<int>(r)).first->second;
    if (first.size() == classes) return equal;
    classes = first.size();
  }
}

// Appends graphs of replicas to one another, renumbered.
class Joiner {
 public:
  Joiner(const Plan& plan, const std::vector<int>& like, const std::vector<TaskGraph>& of_replica, Joined joined)
      : plan_(plan), like_(like), of_replica_(of_replica), parts_(of_replica.size()) {
    choose_replicas(joined);
    const TaskGraph& first = of_replica.front();
    all_.degrees.tensor = first.degrees.tensor;
    all_.replicas = size(replicas_);
    all_.ranks = plan.pipeline * all_.replicas;
    all_.collectives_run_on = first.collectives_run_on;
    all_.rendezvous = first.rendezvous;
    all_.trained_parameters = first.trained_parameters;
    all_.model_flops_per_step = first.model_flops_per_step;
    all_.samples_per_step = first.samples_per_step;
    all_.tokens_per_step = first.tokens_per_step;
    all_.peak_per_device = first.peak_per_device;
    for (const int replica : like) PANPIPE_CHECK(same_tasks(graph(replica), first), "replicas of one plan have the same tasks");
  }

  TaskGraph join() {
    for (const int replica : replicas_) add_replica(replica);
    all_.rank_begin.push_back(static_cast<std::int32_t>(all_.tasks.size()));
    return std::move(all_);
  }

 private:
  // The first steps, programs and flows of a graph once they are added; alike replicas share them.
  struct Part {
    bool added = false;
    std::int32_t steps = 0, programs = 0, flows = 0, points = 0;
  };

  const TaskGraph& graph(int like) const { return of_replica_[like]; }

  void choose_replicas(Joined joined) {
    const std::set<Among> shared = shared_among(of_replica_.front());
    std::vector<int> stand_in(like_.size());
    std::iota(stand_in.begin(), stand_in.end(), 0);
    if (joined == Joined::OneOfEqual) stand_in = equal_replicas(plan_, like_, shared);
    place_.assign(like_.size(), -1);
    for (int r = 0; r < plan_.replicas(); ++r) {
      if (stand_in[r] != r) continue;
      place_[r] = size(replicas_);
      replicas_.push_back(r);
    }
    for (const Among among : shared) groups_.emplace(among, groups_among(plan_, among, stand_in));
  }

  int first_rank(int replica) const { return place_[replica] * plan_.pipeline; }

  const Part& part(int like) {
    Part& part = parts_[like];
    if (part.added) return part;
    const TaskGraph& from = graph(like);
    part = {true, size(all_.steps), size(all_.programs), size(all_.flows), size(all_.points)};
    for (ProgramStep step : from.steps) {
      if (step.flow >= 0) step.flow += part.flows;
      all_.steps.push_back(step);
    }
    for (Program program : from.programs) {
      program.first_step += part.steps;
      all_.programs.push_back(program);
    }
    all_.flows.insert(all_.flows.end(), from.flows.begin(), from.flows.end());
    for (auto point : from.points) {
      point.program += part.programs;
      all_.points.push_back(point);
    }
    return part;
  }

  void add_replica(int replica) {
    const TaskGraph& from = graph(like_[replica]);
    const Part of = part(like_[replica]);
    const std::int32_t rank = first_rank(replica), task = size(all_.tasks), transfer = size(all_.transfers),
                       input = size(all_.inputs), link = size(all_.links);
    for (TransferLink each : from.links) {
      each.from_rank += rank;
      each.to_rank += rank;
      all_.links.push_back(each);
    }
    for (Transfer each : from.transfers) {
      each.producer += task;
      each.consumer += task;
      each.link += link;
      if (each.taken_after >= 0) each.taken_after += task;
      all_.transfers.push_back(each);
    }
    for (Input each : from.inputs) {
      each.task += task;
      if (each.transfer >= 0) each.transfer += transfer;
      if (each.point >= 0) each.point += of.points;
      all_.inputs.push_back(each);
    }
    std::map<std::int32_t, std::int32_t> own;  // among the ranks of this replica: its flow -> the joined graph's
    for (const auto& cross : from.cross_rank_flows) {
      std::vector<std::int32_t> ranks = cross.ranks;
      for (std::int32_t& each : ranks) each += rank;
      own[cross.flow] = add_cross(from.flows[cross.flow], std::move(ranks));
    }
    for (std::size_t t = 0; t < from.tasks.size(); ++t) {
      Task each = from.tasks[t];
      const int of_rank = each.rank;
      each.rank += rank;
      each.first_input += input;
      if (each.program >= 0) each.program += of.programs;
      if (each.flow >= 0) {
        const auto found = own.find(each.flow);
        each.flow = found != own.end() ? found->second : among_replicas(of_rank, replica, t, from.flows[each.flow]);
      }
      all_.tasks.push_back(each);
    }
    for (int r = 0; r < plan_.pipeline; ++r) {
      all_.rank_begin.push_back(task + from.rank_begin[r]);
      if (!from.memory.empty()) all_.memory.push_back(from.memory[r]);
      for (int t = 0; t < plan_.tensor; ++t) {
        const std::size_t position = at((r * plan_.replicas() + replica) * plan_.tensor + t);
        all_.devices.push_back(from.devices[position]);
        all_.limits.push_back(from.limits[position]);
      }
    }
  }

  // The same flow for the same task of every participating replica. Tasks of one rank that share a flow in the first replica's
  // graph share it here.
  std::int32_t among_replicas(int rank, int replica, std::size_t task, const CollectiveFlow& flow) {
    const std::int32_t first = graph(like_.front()).tasks[task].flow;
    const ReplicaGroups& groups = groups_.at(flow.among);
    const int group = groups.of[replica];
    const auto [known, is_new] = among_.try_emplace({rank, first, group}, -1);
    if (is_new) {
      std::vector<std::int32_t> ranks;
      for (const int r : groups.members[group]) ranks.push_back(first_rank(r) + rank);
      known->second = add_cross(flow, std::move(ranks));
    }
    return known->second;
  }

  std::int32_t add_cross(const CollectiveFlow& flow, std::vector<std::int32_t> ranks) {
    all_.flows.push_back(flow);
    all_.cross_rank_flows.push_back({size(all_.flows) - 1, std::move(ranks)});
    return size(all_.flows) - 1;
  }

  template <class T>
  static std::int32_t size(const std::vector<T>& list) {
    return static_cast<std::int32_t>(list.size());
  }

  const Plan& plan_;
  const std::vector<int>& like_;
  const std::vector<TaskGraph>& of_replica_;
  std::vector<Part> parts_;
  std::vector<int> replicas_;              // that the joined graph has, ascending
  std::vector<int> place_;                 // per replica of the plan: among those; -1 = another stands in for it
  std::map<Among, ReplicaGroups> groups_;  // of all that replicas share flows among
  std::map<std::tuple<int, std::int32_t, int>, std::int32_t> among_;  // (rank, flow of the first replica's graph, group)
  TaskGraph all_;
};

}  // namespace

std::vector<int> like_replicas(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  std::vector<int> like(at(plan.replicas()), 0);
  if (plan.replicas() == 1) return like;
  const Occupancy occupancy(scenario.cluster, plan, plan.devices);
  const bool to_host = copies_to_host(scenario, plan.schedule);
  std::map<std::vector<int>, int> of_form;
  std::map<Traits, int> of_traits;
  for (int replica = 0; replica < plan.replicas(); ++replica) {
    std::vector<int> form = form_of(plan, occupancy, replica);
    const std::vector<int> lengths = lengths_of(plan, replica);
    form.insert(form.end(), lengths.begin(), lengths.end());
    const auto [known, is_new] = of_form.try_emplace(std::move(form), replica);
    if (is_new) known->second = of_traits.try_emplace(traits_of(scenario, plan, costs, replica, to_host), replica).first->second;
    like[replica] = known->second;
  }
  return like;
}

bool same_tasks(const TaskGraph& one, const TaskGraph& other) {
  return std::equal(one.tasks.begin(), one.tasks.end(), other.tasks.begin(), other.tasks.end(), [](const Task& a, const Task& b) {
    return a.kind == b.kind && a.rank == b.rank && a.action.kind == b.action.kind && a.action.stage == b.action.stage;
  });
}

TaskGraph join_replicas(const Plan& plan, const std::vector<int>& like, const std::vector<TaskGraph>& of_replica, Joined joined) {
  return Joiner(plan, like, of_replica, joined).join();
}

}  // namespace panpipe
