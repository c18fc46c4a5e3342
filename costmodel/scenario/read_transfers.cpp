// Reads `transfers:`.
#include "base/input/bound_key.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

const std::vector<BoundKey<TransferRules>>& transfer_rows() {
  using Rules = TransferRules;
  static const std::vector<BoundKey<Rules>> rows = {
      bound(&Rules::semantics,
            {{"asynchronous", Rules::Semantics::Asynchronous},
             {"blocking", Rules::Semantics::Blocking},
             {"batched", Rules::Semantics::Batched}},
            "semantics",
            "`asynchronous`: no rank waits. `blocking`: a rank goes on when all outputs of its pass (or group) have arrived. "
            "`batched`: sends of one turn and receives for the next are one batch, for which both ends wait",
            Otherwise{"the framework's; `asynchronous` for measured layers and clusters in place"},
            Page{"models/transfers.md#batches-in-a-scenario"}),
      bound(&Rules::braid_inputs, {{"together", Rules::BraidInputs::Together}, {"unit", Rules::BraidInputs::Unit}},
            "braid_inputs",
            "a woven group starts when the inputs of all its members have arrived; or, with `unit`, each member's first unit "
            "waits for its own"),
      bound(&Rules::braid_outputs, {{"end", Rules::BraidOutputs::End}, {"unit", Rules::BraidOutputs::Unit}}, "braid_outputs",
            "all outputs of a woven group leave when it ends; or, with `unit`, each when its own member's last unit and "
            "all-reduce have ended"),
      bound(&Rules::full_backward_sends,
            {{"end", Rules::FullBackwardSends::End}, {"input_gradient", Rules::FullBackwardSends::InputGradient}},
            "full_backward_sends", "`input_gradient`: a full backward hands its gradient on before its last weight gradient"),
      bound(&Rules::batch_after, {{"cell", Rules::BatchAfter::Cell}, {"pair", Rules::BatchAfter::Pair}}, "batch_after",
            "`pair`: a forward and the backward after it are one turn, with one batch after both"),
      bound(&Rules::batch_receives, {{"as_needed", Rules::BatchReceives::AsNeeded}, {"late", Rules::BatchReceives::Late}},
            "batch_receives", "`late`: receives are right before their turn, even if ranks then wait for each other")};
  return rows;
}

}  // namespace

Key transfers_key() {
  return declare("transfers", "which ranks wait for a transfer", Inside{declared(transfer_rows())}, Page{"models/braids.md"},
                 InExports::Apart);
}

TransferRules read_transfers(MapReader& scenario, bool framework_blocks, const std::string& framework) {
  const Section section(scenario, "transfers");
  MapReader reader(section.node(), scenario.log());
  TransferRules rules;
  if (!reader.has("semantics"))
    scenario.log().resolved("transfers.semantics", framework_blocks ? "blocking" : "asynchronous", framework);
  read_keys(reader, transfer_rows(), rules);
  reader.finish();
  return rules;
}

}  // namespace panpipe
