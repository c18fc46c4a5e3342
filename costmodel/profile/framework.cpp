#include "costmodel/profile/framework.hpp"

#include "costmodel/profile/sourced_file.hpp"

namespace panpipe {

Framework load_framework(const std::string& name_or_path, const std::string& directory) {
  SourcedFile file("framework", name_or_path, directory);
  Framework f;
  f.name = file.name();
  file.read("elementwise_factor", f.elementwise_factor);
  file.read("replicated_factor", f.replicated_factor);
  file.read("score_factor", f.score_factor);
  file.read("flash_attention", f.flash_attention);
  file.read("loss_bytes_per_logit", f.loss_bytes_per_logit);
  file.read("dropout", f.dropout);
  file.read("optimizer_factor", f.optimizer_factor);
  file.read("forward_operators", f.forward_operators);
  file.read("backward_operators", f.backward_operators);
  file.read("synchronous_launches", f.synchronous_launches);
  file.read("blocking_transfers", f.blocking_transfers);
  file.read("scatter_gather", f.scatter_gather);
  file.read("distributed_optimizer", f.distributed_optimizer);
  file.read("overlap_tensor_collectives", f.overlap_tensor_collectives);
  file.read("residual_before_reduction", f.residual_before_reduction);
  file.read("gradient_bucket", f.gradient_bucket);
  file.read("gradient_bucket_elements", f.gradient_bucket_elements);
  file.read("gradient_bucket_elements_per_copy", f.gradient_bucket_elements_per_copy);
  file.read("overlap_all_reduce", f.overlap_all_reduce);
  file.read("overlap_reduce_scatter", f.overlap_reduce_scatter);
  file.read("overlap_parameter_gather", f.overlap_parameter_gather);
  file.read("gather_prefetch", f.gather_prefetch);
  file.read("gathers_in_flight", f.gathers_in_flight);
  file.read("gradient_bytes", f.gradient_bytes);
  file.read("bf16_extra_gradient_bytes", f.bf16_extra_gradient_bytes);
  file.read("replicated_saved_factor", f.replicated_saved_factor);
  file.read("sharded_saved_factor", f.sharded_saved_factor);
  file.read("released_by_input_gradient", f.released_by_input_gradient);
  file.read("loss_live_bytes_per_logit", f.loss_live_bytes_per_logit);
  file.read("allocator_factor", f.allocator_factor, Sign::Positive);
  file.read("context", f.context);
  f.sources = file.finish();
  return f;
}

}  // namespace panpipe
