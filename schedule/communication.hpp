// Writes communication into an order of passes where PyTorch's pipeline runtime puts it: sends and receives, and the exchanges of
// fully sharded parameters (ZeRO 3, FSDP). PyTorch applies the three functions in the order unshard, reduce, send and receive.
#pragma once

#include "schedule/schedule.hpp"

namespace panpipe {

class Products;

enum class Receives : std::uint8_t {
  Early,  // when the sender's rank emits the send: receives may stand long before the pass that needs them
  Late,   // just before the pass that needs them, but before a send to the same peer if that peer has the higher number
};

// Adds a send after each cell whose result another rank needs (after a group, one for each member), and the receive in the peer's
// row at the place that `receives` states. Stages of one rank need neither. Empty cells are dropped. Throws InputError if the
// order cannot finish or already has sends or receives.
Schedule add_sends_and_receives(const Schedule& schedule, Receives receives);

// Adds UNSHARD before a stage's pass, for the rank's next `stages_ahead` different stages, and RESHARD, ascending, for stages no
// longer among them and at the end. PyTorch's look-ahead is 3.
Schedule add_unshard(const Schedule& schedule, int stages_ahead = 3);

// Adds REDUCE_GRAD after the last B or W of each stage.
Schedule add_reductions(const Schedule& schedule);

// Finds messages between two ranks that are received in another order than they are sent. Tagged messages tolerate this; untagged
// ones (NCCL) deliver wrong data or hang. Returns one problem for each pair of ranks, at the first receive that differs.
std::vector<ScheduleProblem> message_order_faults(const Schedule& schedule);

// Of a send or a receive: the stage at the other end, -1 = none; and the number of its message.
int other_end(const Products& products, const Action& transfer);
std::size_t message_of(const Products& products, const Action& transfer);

}  // namespace panpipe
