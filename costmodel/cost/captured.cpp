// Units that run in a CUDA graph (docs/models/compute.md#cuda-graphs).
#include "costmodel/cost/graph_cost.hpp"

namespace panpipe {
namespace {

// Kernels of 2.9 us each follow one another every 3.8 us from a stream and every 3.4 us in a graph (V100; A. Gray, Getting
// Started with CUDA Graphs, NVIDIA 2019; recalled).
constexpr Duration kSavedGap = micros(0.4);

}  // namespace

Duration GraphCost::gap(double kernels) const {
  return (captured_ ? std::max(Duration(0), rates_.kernel_gap - kSavedGap) : rates_.kernel_gap) * kernels;
}

// What waits for numbers at the host cannot be part of a graph. Embedding, head and loss are part of that of all passes alone.
bool GraphCost::captured(const UnitTemplate& shape) const {
  if (framework().cuda_graphs == CudaGraphs::None || reads_counts(shape)) return false;
  return framework().cuda_graphs == CudaGraphs::Full || !(shape.embedding || shape.loss || shape.head);
}

void GraphCost::refuse_capture() const {
  if (framework().cuda_graphs != CudaGraphs::Full) return;
  for (const UnitTemplate& shape : templates_)
    if (reads_counts(shape))
      throw placed(InputError("a graph of all passes cannot wait until the host has read how many rows each expert gets",
                              "state 'cuda_graphs: layers', 'expert_counts: device', or a capacity that pads rows"),
                   model_.scenario(), "framework");
}

// The collectives inside are part of the graph.
void GraphCost::launch_at_once(PassCost& pass) const {
  if (pass.pieces.empty()) return;
  pass.host = framework().cuda_graphs == CudaGraphs::Full ? HostWork{} : HostWork(1);
}

}  // namespace panpipe
