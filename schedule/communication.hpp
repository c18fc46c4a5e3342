// Communication written into an order of passes, where PyTorch's pipeline runtime puts it: sends and receives, and what fully
// sharded parameters (ZeRO 3, FSDP) exchange. PyTorch applies the three in the order unshard, reduce, send and receive.
#pragma once

#include "schedule/schedule.hpp"

namespace panpipe {

constexpr bool is_send(ActionKind kind) { return kind == ActionKind::SendF || kind == ActionKind::SendB; }

enum class Receives : std::uint8_t {
  Early,  // where the sender's rank emits the send: receives may stand long before the pass that needs them
  Late,   // right before the pass that needs them, but before a send to the same peer when that peer has the higher number
};

// A send after the cell whose result another rank needs (after a group, one for each member), the receive in the peer's row as
// above. Stages of one rank hand over without either. Empty cells are dropped. InputError when the order cannot finish or has
// sends or receives already.
Schedule add_sends_and_receives(const Schedule& schedule, Receives receives);

// UNSHARD before a stage's pass, for the next `stages_ahead` different stages that the rank runs; RESHARD for those not among
// them, ascending, and at the end. PyTorch's look-ahead is 3.
Schedule add_unshard(const Schedule& schedule, int stages_ahead = 3);

// REDUCE_GRAD after the last B or W of each stage.
Schedule add_reductions(const Schedule& schedule);

// Messages between two ranks that are received in another order than they are sent: harmless where messages carry tags, wrong
// data or a stop where they do not (NCCL). One problem for each pair of ranks, at the first receive that differs.
std::vector<ScheduleProblem> message_order_faults(const Schedule& schedule);

}  // namespace panpipe
