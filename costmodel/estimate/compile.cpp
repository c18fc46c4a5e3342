#include "costmodel/estimate/compile.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "costmodel/base/error.hpp"

namespace panpipe {
namespace {

constexpr std::size_t kLanes = static_cast<std::size_t>(Lane::Host) + 1;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// A value and how much later than it something may start.
struct Dependency {
  std::uint32_t node = 0;
  std::uint16_t delay = 0;
};

// Tasks that start together: one task, the members of a group (which then run one after another on their lane), or the
// collectives of several ranks that take part in one flow (which run side by side).
struct Block {
  std::int32_t first_member = 0, members = 0;  // into Compiler::members_
  bool together = false;                       // side by side
  std::int32_t waiting_for = 0;                // blocks that have not been emitted
  std::int32_t first_successor = 0, successors = 0;
};

class Compiler {
 public:
  explicit Compiler(const TaskGraph& graph) : graph_(graph) {}

  CompiledGraph compile() {
    make_tables();
    make_lanes();
    make_blocks();
    link_blocks();
    emit_in_levels();
    finish();
    return std::move(result_);
  }

 private:
  void make_tables() {
    const auto limit = std::size_t{std::numeric_limits<std::uint16_t>::max()};
    if (graph_.programs.size() + graph_.flows.size() >= limit || graph_.links.size() >= limit) {
      throw InputError(
          fmt::format("the plan has {} different passes and collectives and {} different transfers; at most {} of each",
                      graph_.programs.size() + graph_.flows.size(), graph_.links.size(), limit - 1));
    }
    result_.costs.push_back(0);
    for (const Program& program : graph_.programs) result_.costs.push_back(program.duration.base());
    for (const CollectiveFlow& flow : graph_.flows) result_.costs.push_back((flow.latency + flow.transfer).base());
    result_.delays.push_back(0);
    for (const TransferLink& link : graph_.links) result_.delays.push_back((link.latency + link.transfer).base());
  }

  std::uint16_t cost_of(const Task& task) const {
    if (task.program >= 0) return static_cast<std::uint16_t>(1 + task.program);
    if (task.flow >= 0) return static_cast<std::uint16_t>(1 + graph_.programs.size() + at(task.flow));
    return 0;
  }

  // The task before each on its lane.
  void make_lanes() {
    lane_before_.assign(graph_.tasks.size(), -1);
    lane_tail_.assign(at(graph_.ranks) * kLanes, -1);
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      std::int32_t& tail = lane_tail_[lane_index(graph_.tasks[t])];
      lane_before_[t] = tail;
      tail = static_cast<std::int32_t>(t);
    }
    if (std::none_of(graph_.tasks.begin(), graph_.tasks.end(), [](const Task& task) { return task.waits_for_sends; })) return;
    sent_links_.resize(graph_.tasks.size());
    for (const Transfer& transfer : graph_.transfers) {
      auto& links = sent_links_[at(transfer.producer)];
      const auto entry = static_cast<std::uint16_t>(1 + transfer.link);
      if (std::find(links.begin(), links.end(), entry) == links.end()) links.push_back(entry);
    }
  }

  static std::size_t lane_index(const Task& task) { return at(task.rank) * kLanes + static_cast<std::size_t>(task.lane); }

  void make_blocks() {
    block_of_.assign(graph_.tasks.size(), -1);
    members_.reserve(graph_.tasks.size());
    std::map<std::int32_t, std::vector<std::vector<std::int32_t>>> shared;  // flow -> per round: its tasks
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> rounds;    // (flow, rank) -> times seen
    for (const auto& flow : graph_.cross_rank_flows) shared[flow.flow];
    for (std::size_t t = 0; t < graph_.tasks.size();) {
      const Task& task = graph_.tasks[t];
      const auto found = task.kind == TaskKind::Collective ? shared.find(task.flow) : shared.end();
      if (found != shared.end()) {
        const std::size_t round = rounds[{task.flow, task.rank}]++;
        if (found->second.size() <= round) found->second.resize(round + 1);
        found->second[round].push_back(static_cast<std::int32_t>(t++));
        continue;
      }
      const std::size_t size = std::max<std::size_t>(1, task.group_size);
      std::vector<std::int32_t> members;
      for (std::size_t k = 0; k < size && t + k < graph_.tasks.size(); ++k) members.push_back(static_cast<std::int32_t>(t + k));
      add_block(members, false);
      t += size;
    }
    for (const auto& [flow, tasks_of_rounds] : shared) {
      for (const auto& tasks : tasks_of_rounds) add_block(tasks, true);
    }
  }

  void add_block(const std::vector<std::int32_t>& tasks, bool together) {
    Block block;
    block.first_member = static_cast<std::int32_t>(members_.size());
    block.members = static_cast<std::int32_t>(tasks.size());
    block.together = together;
    for (const std::int32_t t : tasks) {
      block_of_[at(t)] = static_cast<std::int32_t>(blocks_.size());
      members_.push_back(t);
    }
    blocks_.push_back(block);
  }

  std::int32_t producer(const Input& input) const {
    return input.transfer >= 0 ? graph_.transfers[at(input.transfer)].producer : input.task;
  }

  // Calls visit(block) for everything that the block waits for; a block may come more than once.
  template <class Visit>
  void each_predecessor(std::size_t b, Visit visit) const {
    const Block& block = blocks_[b];
    for (std::int32_t k = 0; k < block.members; ++k) {
      const std::int32_t t = members_[at(block.first_member + k)];
      const Task& task = graph_.tasks[at(t)];
      if (lane_before_[at(t)] >= 0) visit(at(block_of_[at(lane_before_[at(t)])]));
      for (std::int32_t i = 0; i < task.inputs; ++i) {
        const std::int32_t from = producer(graph_.inputs[at(task.first_input + i)]);
        if (from >= 0) visit(at(block_of_[at(from)]));
      }
    }
  }

  void link_blocks() {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      each_predecessor(b, [&](std::size_t before) {
        if (before == b) return;
        ++blocks_[before].successors;
        ++blocks_[b].waiting_for;
      });
    }
    std::int32_t total = 0;
    for (Block& block : blocks_) {
      block.first_successor = total;
      total += block.successors;
      block.successors = 0;
    }
    successors_.resize(at(total));
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      each_predecessor(b, [&](std::size_t before) {
        if (before == b) return;
        Block& from = blocks_[before];
        successors_[at(from.first_successor + from.successors++)] = static_cast<std::int32_t>(b);
      });
    }
  }

  void emit_in_levels() {
    result_.task_node.assign(graph_.tasks.size(), 0);
    result_.ready_node.assign(graph_.tasks.size(), 0);
    resize(result_.structure, 0);
    std::vector<std::size_t> level, next;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].waiting_for == 0) level.push_back(b);
    }
    std::size_t emitted = 0;
    while (!level.empty()) {
      next.clear();
      for (const std::size_t b : level) {
        emit(blocks_[b]);
        ++emitted;
        for (std::int32_t k = 0; k < blocks_[b].successors; ++k) {
          const std::size_t after = at(successors_[at(blocks_[b].first_successor + k)]);
          if (--blocks_[after].waiting_for == 0) next.push_back(after);
        }
      }
      level.swap(next);
    }
    if (emitted < blocks_.size()) throw NoAnswer(to_text(explain(), graph_));
  }

  std::uint32_t add_node(std::uint32_t lane_pred, Dependency from, std::uint16_t cost) {
    Structure& s = result_.structure;
    s.lane_pred.push_back(lane_pred);
    s.src.push_back(from.node);
    s.delay.push_back(from.delay);
    s.cost.push_back(cost);
    return ++s.tasks;
  }

  void depend(std::uint32_t node, std::uint16_t delay) {
    if (node == 0) return;
    for (const Dependency& known : dependencies_) {
      if (known.node == node && known.delay == delay) return;
    }
    dependencies_.push_back({node, delay});
  }

  // Everything that the block's start waits for, but the end of its first member's predecessor on the lane.
  void gather_dependencies(const Block& block) {
    dependencies_.clear();
    for (std::int32_t k = 0; k < block.members; ++k) {
      const std::int32_t t = members_[at(block.first_member + k)];
      const Task& task = graph_.tasks[at(t)];
      const std::int32_t before = lane_before_[at(t)];
      if (before >= 0 && block_of_[at(before)] != block_of_[at(t)]) {
        if (k > 0) depend(result_.task_node[at(before)], 0);
        // After a group: what any of its members sent.
        for (std::int32_t b = before; !sent_links_.empty() && b >= 0 && block_of_[at(b)] == block_of_[at(before)];
             b = lane_before_[at(b)]) {
          if (!graph_.tasks[at(b)].waits_for_sends) continue;
          for (const std::uint16_t link : sent_links_[at(b)]) depend(result_.ready_node[at(b)], link);
        }
      }
      for (std::int32_t i = 0; i < task.inputs; ++i) {
        const Input& input = graph_.inputs[at(task.first_input + i)];
        const std::int32_t from = producer(input);
        if (from < 0 || block_of_[at(from)] == block_of_[at(t)]) continue;
        // What ran before on the same lane has ended.
        if (input.transfer < 0 && lane_index(graph_.tasks[at(from)]) == lane_index(task)) continue;
        const auto delay = input.transfer < 0 ? 0 : 1 + graph_.transfers[at(input.transfer)].link;
        depend(result_.ready_node[at(from)], static_cast<std::uint16_t>(delay));
      }
    }
  }

  void emit(const Block& block) {
    gather_dependencies(block);
    const std::int32_t first = members_[at(block.first_member)];
    std::uint32_t node = lane_before_[at(first)] < 0 ? 0 : result_.task_node[at(lane_before_[at(first)])];
    // All but the last dependency, and for tasks side by side the last one as well, go into tasks of no cost.
    const std::size_t joins = block.together ? dependencies_.size() : std::max<std::size_t>(1, dependencies_.size()) - 1;
    for (std::size_t i = 0; i < joins; ++i) node = add_node(node, dependencies_[i], 0);
    const Dependency last = joins < dependencies_.size() ? dependencies_.back() : Dependency{};
    const std::uint32_t start = node;
    for (std::int32_t k = 0; k < block.members; ++k) {
      const std::int32_t t = members_[at(block.first_member + k)];
      node = add_node(block.together ? start : node, k == 0 ? last : Dependency{}, cost_of(graph_.tasks[at(t)]));
      result_.task_node[at(t)] = node;
    }
    for (std::int32_t k = 0; k < block.members; ++k) {
      const std::int32_t t = members_[at(block.first_member + k)];
      result_.ready_node[at(t)] = block.together ? result_.task_node[at(t)] : node;
    }
  }

  void finish() {
    Structure& s = result_.structure;
    s.cost_entries = static_cast<std::uint32_t>(result_.costs.size());
    s.delay_entries = static_cast<std::uint32_t>(result_.delays.size());
    for (const std::int32_t tail : lane_tail_) {
      if (tail >= 0) s.lane_last.push_back(result_.task_node[at(tail)]);
    }
  }

  bool emitted(std::int32_t task) const { return result_.ready_node[at(task)] != 0; }

  // The first task of this one's lane that has not been emitted.
  std::int32_t lane_head(std::int32_t task) const {
    while (lane_before_[at(task)] >= 0 && !emitted(lane_before_[at(task)])) task = lane_before_[at(task)];
    return task;
  }

  // What a task that could not run waits for: the head of its lane if that is another block, else an input of its block that
  // has not been made, else (side by side with others) a partner that is stuck behind its lane's head.
  std::int32_t cause(std::int32_t task) const {
    const std::int32_t head = lane_head(task);
    if (block_of_[at(head)] != block_of_[at(task)]) return head;
    const Block& block = blocks_[at(block_of_[at(task)])];
    for (std::int32_t k = 0; k < block.members; ++k) {
      const Task& member = graph_.tasks[at(members_[at(block.first_member + k)])];
      for (std::int32_t i = 0; i < member.inputs; ++i) {
        const std::int32_t from = producer(graph_.inputs[at(member.first_input + i)]);
        if (from >= 0 && !emitted(from) && block_of_[at(from)] != block_of_[at(task)]) return from;
      }
    }
    for (std::int32_t k = 0; k < block.members; ++k) {
      const std::int32_t partner = members_[at(block.first_member + k)];
      if (block_of_[at(lane_head(partner))] != block_of_[at(task)]) return partner;
    }
    return -1;
  }

  Deadlock explain() const {
    Deadlock deadlock;
    std::int32_t start = -1;
    for (int rank = 0; rank < graph_.ranks; ++rank) {
      std::int32_t head = lane_tail_[at(rank) * kLanes + static_cast<std::size_t>(Lane::Compute)];
      if (head >= 0) head = emitted(head) ? -1 : lane_head(head);
      deadlock.blocked.push_back(head);
      if (start < 0) start = head;
    }
    for (std::size_t t = 0; start < 0 && t < graph_.tasks.size(); ++t) {
      if (!emitted(static_cast<std::int32_t>(t))) start = static_cast<std::int32_t>(t);
    }
    std::vector<std::int32_t> place(graph_.tasks.size(), -1);
    for (std::int32_t t = start; t >= 0; t = cause(t)) {
      if (place[at(t)] >= 0) {
        deadlock.cycle.erase(deadlock.cycle.begin(), deadlock.cycle.begin() + place[at(t)]);
        return deadlock;
      }
      place[at(t)] = static_cast<std::int32_t>(deadlock.cycle.size());
      deadlock.cycle.push_back(t);
    }
    deadlock.cycle.clear();
    return deadlock;
  }

  const TaskGraph& graph_;
  CompiledGraph result_;
  std::vector<std::int32_t> lane_before_;               // per task, -1 = first of its lane
  std::vector<std::int32_t> lane_tail_;                 // [rank][lane] last task
  std::vector<std::vector<std::uint16_t>> sent_links_;  // per task; empty when no task waits for its sends
  std::vector<std::int32_t> block_of_, members_;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> successors_;
  std::vector<Dependency> dependencies_;  // of the block being emitted
};

}  // namespace

CompiledGraph compile(const TaskGraph& graph) { return Compiler(graph).compile(); }

}  // namespace panpipe
