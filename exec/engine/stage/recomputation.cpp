#include "exec/engine/stage/recomputation.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "costmodel/workload/aliases.hpp"
#include "exec/engine/stage/activation_offload.hpp"
#include "exec/engine/stage/autograd_node.hpp"
#include "exec/engine/stage/stack_tensors.hpp"

namespace panpipe::exec {
namespace again {

struct Region;
struct Reference;

// Memory that a listed operator made and nobody keeps, or a cast of it.
struct MadeValue {
  at::Tensor tensor;  // undefined until it is made again
  std::weak_ptr<Region> maker;
  std::shared_ptr<Reference> source;  // of a cast
  at::ScalarType type{};              // of a cast

  const at::Tensor& get();
};

// A tensor in such memory.
struct Reference {
  std::shared_ptr<MadeValue> value;
  std::shared_ptr<Region> region;  // null inside the region itself, which makes its values in order
  std::int64_t first_byte = 0;     // behind the value's own
  at::ScalarType type{};
  std::vector<std::int64_t> sizes, strides;

  at::Tensor get() const;
};

// A tensor that autograd saved: kept, dropped, or recomputed.
struct Saved {
  at::Tensor tensor;
  SavingHooks parked;  // keeps it in the tensor's place
  std::optional<Reference> reference;
  std::shared_ptr<Region> region;  // makes it again: of a listed operator's own

  void keep() {
    if (!parked) return;
    parked->call_pack_hook(tensor);
    tensor.reset();
  }
  at::Tensor get();
};

struct Hooks : torch::autograd::SavedVariableHooks {
  explicit Hooks(std::shared_ptr<Saved> to) : saved(std::move(to)) {}
  void call_pack_hook(const at::Tensor& tensor) override { saved->tensor = tensor.detach(); }
  at::Tensor call_unpack_hook() override { return saved->get(); }
  std::shared_ptr<Saved> saved;
};

using SavedList = std::vector<std::shared_ptr<Saved>>;

SavingHooks noting(SavedList& list, SavingHooks parked) {
  list.push_back(std::make_shared<Saved>());
  list.back()->parked = std::move(parked);
  return std::make_unique<Hooks>(list.back());
}

// A tensor among the arguments of a call.
struct Operand {
  int position = 0, element = -1;  // of a list
  bool requires_gradient = false, written = false;
  Saved held;
  std::int64_t version = 0;  // of memory that is held
};

struct Call {
  int op = -1;
  torch::jit::Stack stack;  // operands are left out
  std::vector<Operand> operands;
  std::vector<std::pair<std::size_t, std::weak_ptr<MadeValue>>> makes;  // by result
  std::vector<std::pair<std::size_t, std::weak_ptr<Saved>>> inside;     // by number among what it saves
  std::size_t saves = 0;
};

// Operators that run again together.
struct Region {
  Recomputation::CallAgain call;
  std::vector<Call> calls;

  void run() {
    const at::AutoGradMode record(true);  // a backward does not record; operators save only when recorded
    for (Call& again : std::exchange(calls, {})) {
      run(again);
      again = {};
    }
  }
  void run(Call& again) const {
    for (Operand& operand : again.operands) {
      at::Tensor leaf = operand.held.get();
      PANPIPE_CHECK(operand.held.reference || operand.held.parked || leaf._version() == operand.version,
                    "a tensor was written over before an operator that reads it ran again");
      leaf = leaf.detach();
      // Autograd refuses to write to a leaf: what is written comes from a node, of which nobody asks a gradient. The value itself
      // is written, as it was in the forward, because others may look at parts of the same memory.
      if (operand.requires_gradient && operand.written)
        torch::autograd::create_gradient_edge(leaf, make_node<torch::autograd::Identity>());
      else if (operand.requires_gradient)
        leaf.requires_grad_(true);
      put(again.stack[operand.position], operand.element, std::move(leaf));
    }
    SavedList saved;
    {
      const SavingAnswers notes([&saved](const SavingHooks&) { return noting(saved, nullptr); });
      call(again.op, again.stack);
    }
    PANPIPE_CHECK(saved.size() == again.saves, "an operator that runs again saves as many tensors as it did");
    for (const auto& [number, of_forward] : again.inside)
      if (const auto wanted = of_forward.lock()) wanted->tensor = saved[number]->tensor;
    const std::vector<at::Tensor> results = tensors_of(again.stack);
    for (const auto& [result, value] : again.makes)
      if (const auto wanted = value.lock()) wanted->tensor = results.at(result).detach();
  }
};

at::Tensor Saved::get() {
  if (reference) return reference->get();
  if (parked) return parked->call_unpack_hook();
  if (!tensor.defined() && region) region->run();
  PANPIPE_CHECK(tensor.defined(), "a tensor that was let go is made again");
  return tensor;
}

std::int64_t offset_in_bytes(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
}

const at::Tensor& MadeValue::get() {
  if (!tensor.defined() && source) tensor = source->get().to(type);
  if (const auto region = maker.lock(); region && !tensor.defined()) region->run();
  PANPIPE_CHECK(tensor.defined(), "a result that was let go is made again");
  return tensor;
}

at::Tensor Reference::get() const {
  const at::NoGradGuard no_graph;
  const at::Tensor& whole = value->get();
  at::Tensor tensor = at::empty({0}, whole.options().dtype(type));
  const auto width = static_cast<std::int64_t>(tensor.element_size());
  tensor.set_(whole.storage(), (offset_in_bytes(whole) + first_byte) / width, sizes, strides);
  return tensor;
}

const c10::StorageImpl* memory_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace again

using namespace again;

struct Recomputation::Forward {
  const OperatorGraph& graph;
  const std::vector<RecomputedOperator>& listed;
  CallAgain call;
  std::map<std::string_view, std::shared_ptr<Region>> regions;  // by block

  // Memory that was let go, while the forward runs. The weak pointer keeps its address from being given to other memory.
  struct Gone {
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;
    std::shared_ptr<MadeValue> value;
    std::shared_ptr<Region> region;
    const std::string* block;
    std::int64_t first_byte;  // where the value begins
  };
  std::unordered_map<const c10::StorageImpl*, Gone> gone;

  const std::string& block_of(int op) const { return graph.units[graph.operators[op].unit].block; }
  RecomputedPart listed_as(int op) const {
    const auto found = std::lower_bound(listed.begin(), listed.end(), op,
                                        [](const RecomputedOperator& one, int index) { return one.index < index; });
    return found != listed.end() && found->index == op ? found->makes : RecomputedPart::Nothing;
  }
  std::shared_ptr<Region> region_of(int op, RecomputedPart makes) {
    if (makes == RecomputedPart::Inside) return std::make_shared<Region>(Region{call, {}});
    std::shared_ptr<Region>& region = regions[block_of(op)];
    if (!region) region = std::make_shared<Region>(Region{call, {}});
    return region;
  }
  // Null: it is kept, at least for readers in this block.
  const Gone* find(const at::Tensor& tensor, const std::string& block) const {
    const auto found = gone.find(memory_of(tensor));
    return found != gone.end() && *found->second.block == block ? &found->second : nullptr;
  }
  void let_go(const at::Tensor& tensor, const std::string& block, std::shared_ptr<Region> region,
              std::shared_ptr<MadeValue> value) {
    gone.insert_or_assign(memory_of(tensor), Gone{tensor.storage().getWeakStorageImpl(), std::move(value), std::move(region),
                                                  &block, offset_in_bytes(tensor)});
  }
  static Reference reference(const Gone& memory, const at::Tensor& tensor) {
    return {memory.value,         memory.region,        offset_in_bytes(tensor) - memory.first_byte,
            tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec()};
  }
};

namespace {

using Memories = std::vector<const c10::StorageImpl*>;

bool contains(const Memories& list, const c10::StorageImpl* memory) {
  return std::find(list.begin(), list.end(), memory) != list.end();
}

c10::IValue without_tensors(const c10::IValue& argument) {
  if (holds_tensors(argument)) return emptied(argument);
  return argument.isTensor() && argument.toTensor().defined() ? c10::IValue() : argument;
}

}  // namespace

struct Recomputation::Watched {
  Forward& forward;
  int op;
  RecomputedPart makes;
  const std::string& block;
  std::shared_ptr<Region> region;
  Call call;
  SavedList saved;
  Memories read, written;

  Watched(Forward& in, int index) : forward(in), op(index), makes(in.listed_as(index)), block(in.block_of(index)) {}

  bool is_gone(const at::Tensor& tensor) const { return forward.find(tensor, block) != nullptr; }

  void look_at(const torch::jit::Stack& stack, const std::vector<int>& writes) {
    for (const at::Tensor& one : tensors_of(stack)) read.push_back(memory_of(one));
    for (const int position : writes)
      for_each_tensor(stack[position], [&](const at::Tensor& one, int) {
        written.push_back(memory_of(one));
        if (!is_gone(one)) makes = RecomputedPart::Nothing;  // what was there before is not kept
      });
    // A copy for the sake of strides (reshape) goes with what it copies.
    const int source = viewed_tensor(forward.graph, forward.graph.operators[op]);
    if (makes == RecomputedPart::Nothing && source >= 0 && written.empty())
      for_each_tensor(stack.front(), [&](const at::Tensor& one, int) {
        if (is_gone(one)) makes = RecomputedPart::Result;
      });
  }

  void note_operand(const at::Tensor& tensor, int position, int element) {
    Operand& operand = call.operands.emplace_back();
    operand.position = position;
    operand.element = element;
    operand.requires_gradient = tensor.requires_grad();
    operand.written = contains(written, memory_of(tensor));
    if (const auto* memory = forward.find(tensor, block)) {
      operand.held.reference = Forward::reference(*memory, tensor);
      if (memory->region == region) operand.held.reference->region = nullptr;
      return;
    }
    operand.version = tensor._version();
    operand.held.tensor = tensor.detach();
    operand.held.parked = saving_hooks();
    operand.held.keep();
  }

  void note_call(const torch::jit::Stack& stack) {
    region = forward.region_of(op, makes);
    call.op = op;
    for (std::size_t p = 0; p < stack.size(); ++p) {
      for_each_tensor(stack[p], [&](const at::Tensor& one, int element) { note_operand(one, static_cast<int>(p), element); });
      call.stack.push_back(without_tensors(stack[p]));
    }
  }

  void cast_operands(torch::jit::Stack& stack, at::ScalarType lowered) const {
    for (c10::IValue& argument : stack) {
      if (!argument.isTensor() || !argument.toTensor().defined() || argument.toTensor().scalar_type() != at::kFloat) continue;
      const auto* memory = forward.find(argument.toTensor(), block);
      if (memory == nullptr) continue;
      const at::Tensor cast = argument.toTensor().to(lowered);
      const auto source = std::make_shared<Reference>(Forward::reference(*memory, argument.toTensor()));
      forward.let_go(cast, block, memory->region, std::make_shared<MadeValue>(MadeValue{at::Tensor(), {}, source, lowered}));
      argument = cast;
    }
  }

  void let_results_go(const std::vector<at::Tensor>& results) {
    Memories made;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const c10::StorageImpl* memory = memory_of(results[i]);
      const bool own = memory != nullptr && (!contains(read, memory) || contains(written, memory));
      if (!own || contains(made, memory)) continue;
      made.push_back(memory);
      const auto value = std::make_shared<MadeValue>(MadeValue{at::Tensor(), region, nullptr, {}});
      forward.let_go(results[i], block, region, value);
      call.makes.emplace_back(i, value);
    }
  }

  // `kept`: memory of results that stay.
  void let_saved_go(const Memories& kept) {
    for (std::size_t i = 0; i < saved.size(); ++i) {
      Saved& one = *saved[i];
      const c10::StorageImpl* memory = memory_of(one.tensor);
      if (const auto* known = forward.find(one.tensor, block)) {
        one.reference = Forward::reference(*known, one.tensor);
        one.tensor.reset();
      } else if (makes != RecomputedPart::Nothing && memory != nullptr && !contains(read, memory) && !contains(kept, memory)) {
        one.region = region;
        one.tensor.reset();
        one.parked.reset();
        call.inside.emplace_back(i, saved[i]);
      } else {
        one.keep();
      }
    }
  }
};

void Recomputation::around(int op, const std::vector<int>& written, std::optional<at::ScalarType> lowered,
                           torch::jit::Stack& stack, const std::function<void()>& call) {
  Watched now(*forward_, op);
  now.look_at(stack, written);
  if (now.makes != RecomputedPart::Nothing)
    now.note_call(stack);
  else if (lowered)
    now.cast_operands(stack, *lowered);
  {
    const SavingAnswers notes([&now](SavingHooks parked) { return noting(now.saved, std::move(parked)); });
    call();
  }
  const std::vector<at::Tensor> results = tensors_of(stack);
  Memories kept;
  if (now.makes == RecomputedPart::Result) {
    now.let_results_go(results);
  } else {
    for (const at::Tensor& one : results) kept.push_back(memory_of(one));
    for (const c10::StorageImpl* memory : now.written) forward_->gone.erase(memory);
  }
  now.call.saves = now.saved.size();
  now.let_saved_go(kept);
  if (!now.call.makes.empty() || !now.call.inside.empty()) now.region->calls.push_back(std::move(now.call));
}

Recomputation::Recomputation(const OperatorGraph& graph, const std::vector<RecomputedOperator>& listed, CallAgain call)
    : forward_(std::make_unique<Forward>(Forward{graph, listed, std::move(call), {}, {}})) {}

Recomputation::~Recomputation() = default;

}  // namespace panpipe::exec
