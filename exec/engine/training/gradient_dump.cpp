#include "exec/engine/training/gradient_dump.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "exec/engine/checkpoint/safetensors.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/run/deadline.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {
namespace {

// Tags of the passes' messages stay below: they count messages, tensors and microbatches of one step.
constexpr std::uint32_t kDumpTag = 0x80000000U;

}  // namespace

void dump_gradients(const Trainer& trainer, double loss_scale, const std::string& path) {
  const UncountedMemory copies;  // the file's, no part of the step
  const PreparedRun& run = trainer.run();
  const OperatorGraph& graph = run.graph();
  Transport& transport = trainer.transport();
  const Gradients& gradients = trainer.gradients();
  const auto deadline = deadline_of(run.request);

  std::map<int, at::Tensor> mine;  // by root: this rank's shard, or what it stands for
  for (std::size_t i = 0; i < gradients.roots().size(); ++i)
    if (gradients.counts(i))
      mine[gradients.roots()[i]] = gradients.of(i).detach().to(at::kCPU, at::kFloat).div(loss_scale).contiguous();
  std::vector<PendingPtr> sends;
  std::map<int, std::vector<PendingPtr>> receives;  // one per shard and part of it, null for rank 0's own
  for (const auto& [root, positions] : holders_of(graph, run.layout, run.plan)) {
    const Tensor& parameter = graph.tensors[root];
    const std::uint32_t tag = kDumpTag + static_cast<std::uint32_t>(root);
    const std::vector<std::int64_t> lengths =
        run.shards ? run.shards->pieces(positions.front(), root) : std::vector<std::int64_t>();
    std::vector<int> from_devices;  // of the world
    for (const int position : run.layout.vocabulary.count(root) > 0 ? positions : std::vector{positions.front()})
      for (const int device : first_holders(parameter, run.plan))
        from_devices.push_back(position * run.plan.devices_of_rank() + device);
    for (const int device : from_devices) {
      for (std::size_t member = 0; member < std::max<std::size_t>(1, lengths.size()); ++member) {
        const int from = device + static_cast<int>(member) * run.plan.tensor;
        const std::vector<std::int64_t> shape = lengths.empty() ? parameter.shape : std::vector{lengths[member]};
        if (transport.rank() == 0)
          receives[root].push_back(from == 0 ? nullptr : transport.receive({shape, at::kFloat, at::kCPU}, from, tag));
        else if (transport.rank() == from)
          sends.push_back(transport.send(mine.at(root), 0, tag));
      }
    }
  }
  for (auto& [root, pending] : receives) {
    std::vector<at::Tensor> pieces;
    for (const PendingPtr& one : pending) {
      if (one) one->wait(deadline, "the gradients to be written");
      pieces.push_back(one ? one->value : mine.at(root));
    }
    mine[root] = whole_of(graph.tensors[root], pieces);
  }
  for (const PendingPtr& send : sends) send->wait(deadline, "the gradients to be written");
  if (transport.rank() != 0) return;

  std::vector<std::pair<std::string, at::Tensor>> named;
  for (std::size_t tensor = 0; tensor < graph.tensors.size(); ++tensor) {
    if (graph.tensors[tensor].role != TensorRole::Parameter) continue;
    const auto found = mine.find(root_of(graph, static_cast<int>(tensor)));
    if (found != mine.end()) named.emplace_back(graph.tensors[tensor].name, found->second);
  }
  write_safetensors(path, named, {{"format", "pt"}});
}

}  // namespace panpipe::exec
