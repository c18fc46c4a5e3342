#include "costmodel/workload/operator_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/workload/operator_rules.hpp"

namespace panpipe {
namespace {

using namespace work_rules;  // NOLINT(google-build-using-namespace): the table is about them
using Role = OperatorRole;

OperatorRow row(std::string_view name, Role role, Along along, const WorkRule& rule, std::string_view arguments,
                const OperatorTraits& traits = {}) {
  return {name, role, along, &rule, arguments, traits};
}
// Groups with equal behaviour.
OperatorRow view(std::string_view name, std::string_view arguments = "self", std::string_view torch = {}) {
  return {name, Role::View, Along::Tokens, &kAnyOperator, arguments, {.aliasing = Aliasing::View, .torch = torch}};
}
OperatorRow parts(std::string_view name, std::string_view arguments = "self", std::string_view torch = {}) {
  return {name, Role::View, Along::Tokens, &kAnyOperator, arguments, {.aliasing = Aliasing::View, .list = true, .torch = torch}};
}
OperatorRow reshape(std::string_view name, std::string_view arguments = "self", std::string_view torch = {}) {
  return {name, Role::View, Along::Tokens, &kAnyOperator, arguments, {.aliasing = Aliasing::IfStridesAllow, .torch = torch}};
}
OperatorRow pointwise(std::string_view name, const WorkRule& rule, std::string_view arguments = "self",
                      std::string_view torch = {}) {
  return {name, Role::Pointwise, Along::Tokens, &rule, arguments, {.torch = torch}};
}
OperatorRow convolution(std::string_view name, const WorkRule& rule, std::string_view arguments = "input weight bias",
                        std::string_view torch = {}) {
  return {name, Role::Convolution, Along::Mixed, &rule, arguments, {.autocast = true, .torch = torch}};
}
OperatorRow other(std::string_view name, std::string_view arguments = "self") {
  return {name, Role::Other, Along::Mixed, &kAnyOperator, arguments};
}
OperatorRow copy(std::string_view name, Along along, std::string_view arguments = "self") {
  return {name, Role::Copy, along, &kKeepsNothing, arguments};
}
OperatorRow draw(std::string_view name, Role role, Along along, std::string_view arguments) {
  return {name, role, along, &kAnyOperator, arguments, {.draws = true}};
}
OperatorRow collective(std::string_view name, std::string_view arguments = "self") {
  return {name, Role::Collective, Along::Tokens, &kCollective, arguments};
}
OperatorRow transfer(std::string_view name, std::string_view arguments) {
  return {name, Role::ExpertTransfer, Along::Tokens, &kCollective, arguments};
}

// panpipe_nn: registered by the executor (exec/engine/stage/own_operators.cpp, state_operators.cpp).
// panpipe: between ranks; segments of a stage do it. ATen's operators that are not here are read by the last row, with the names
// that an archive gives their arguments.
std::vector<OperatorRow> listed_rows() {
  return {
      // Products
      row("aten::linear", Role::Product, Along::Tokens, kLinear, "input weight bias",
          {.autocast = true, .weight = "weight", .torch = "F.linear({input}, {weight}, {bias})"}),
      row("aten::matmul", Role::Product, Along::Tokens, kProduct, "self other", {.autocast = true}),
      row("aten::bmm", Role::Product, Along::Tokens, kProduct, "self mat2", {.autocast = true}),
      row("aten::mm", Role::Product, Along::Tokens, kProduct, "self mat2", {.autocast = true, .weight = "mat2"}),
      row("aten::addmm", Role::Product, Along::Tokens, kAddedProduct, "self mat1 mat2", {.autocast = true, .weight = "mat2"}),
      row("aten::baddbmm", Role::Product, Along::Tokens, kAddedProduct, "self batch1 batch2", {.autocast = true}),
      row("aten::addbmm", Role::Product, Along::Mixed, kAnyOperator, "self batch1 batch2", {.autocast = true}),
      row("panpipe_nn::grouped_linear", Role::ExpertProduct, Along::Tokens, kGroupedLinear,
          "rows chosen weight bias transposed share arrived", {.weight = "weight"}),
      convolution("aten::conv2d", kConvolution, "input weight bias stride padding dilation groups",
                  "F.conv2d({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})"),
      row("aten::convolution", Role::Convolution, Along::Mixed, kConvolution,
          "input weight bias stride padding dilation transposed"),

      // Attention
      row("aten::scaled_dot_product_attention", Role::Attention, Along::AttendsBehindMask, kAttention,
          "query key value attn_mask dropout_p is_causal scale enable_gqa",
          {.draws = true,
           .torch = "F.scaled_dot_product_attention({query}, {key}, {value}, dropout_p={dropout_p}, is_causal={is_causal}, "
                    "scale={scale}, enable_gqa={enable_gqa})"}),
      row("panpipe_nn::attention", Role::Attention, Along::AttendsLast, kAttention,
          "query key value sinks:head slopes:head dropout_p is_causal scale enable_gqa window cap", {.draws = true}),
      row("panpipe_nn::sparse_attention", Role::Attention, Along::AttendsLast, kSparseAttention,
          "query key value chosen dropout_p is_causal scale enable_gqa window", {.draws = true}),
      row("panpipe_nn::choose_keys", Role::Other, Along::Mixed, kChooseKeys, "query key weights heads count"),
      // A state that passes from token to token
      row("panpipe_nn::causal_convolution", Role::Convolution, Along::Mixed, kCausalConvolution, "input weight bias silu"),
      row("panpipe_nn::gated_delta_rule", Role::Recurrent, Along::Mixed, kGatedDelta,
          "query key value chunk decay strength dt_bias A_log"),
      row("panpipe_nn::state_space", Role::Recurrent, Along::Mixed, kStateSpace,
          "query key value chunk step dt_bias A_log D least_step"),
      row("panpipe_nn::selective_scan", Role::Recurrent, Along::Mixed, kSelectiveScan, "query key value step A_log D"),
      row("panpipe_nn::lightning_attention", Role::Recurrent, Along::Mixed, kLightning, "query key value chunk slopes"),
      row("panpipe_nn::shift_tokens", Role::Copy, Along::Mixed, kKeepsNothing, "self by behind"),
      row("aten::softmax", Role::Softmax, Along::Mixed, kAnyOperator, "self dim"),
      row("aten::_softmax", Role::Softmax, Along::Mixed, kAnyOperator, "self dim"),

      // Normalizations
      row("aten::layer_norm", Role::Norm, Along::Tokens, kLayerNorm, "input normalized_shape weight bias eps cudnn_enable",
          {.torch = "F.layer_norm({input}, {normalized_shape}, {weight}, {bias}, {eps})"}),
      row("aten::rms_norm", Role::Norm, Along::Tokens, kRmsNorm, "input normalized_shape weight eps",
          {.composed = true, .torch = "F.rms_norm({input}, {normalized_shape}, {weight}, {eps})"}),
      row("panpipe_nn::zero_centered_rms_norm", Role::Norm, Along::Tokens, kRmsNorm, "input normalized_shape weight eps",
          {.composed = true, .torch = "F.rms_norm({input}, {normalized_shape}, 1 + {weight}, {eps})"}),
      row("aten::group_norm", Role::Norm, Along::Mixed, kGroupNorm, "input num_groups weight bias eps cudnn_enabled",
          {.torch = "F.group_norm({input}, {num_groups}, {weight}, {bias}, {eps})"}),

      // Element by element
      row("aten::add", Role::Sum, Along::Tokens, kSum, "self other alpha", {.torch = "{self} + {other}[ * {alpha}]"}),
      row("aten::sub", Role::Sum, Along::Tokens, kSum, "self other alpha"),
      pointwise("aten::mul", kMultiply, "self other", "{self} * {other}"),
      row("aten::gelu", Role::Pointwise, Along::Tokens, kGelu, "self approximate",
          {.composed = true, .torch = "F.gelu({self}, approximate={approximate})"}),
      pointwise("aten::silu", kActivation, "self", "F.silu({self})"),
      pointwise("panpipe_nn::clamped_silu", kActivation, "self limit slope"),
      pointwise("panpipe_nn::clamped_product", kMultiply, "self other limit"),
      pointwise("panpipe_nn::sparse_gate", kActivation, "self deviations"),
      pointwise("panpipe_nn::mix_streams", kMixStreams, "streams weights"),
      pointwise("panpipe_nn::correct_streams", kAnyOperator, "streams made shares"),
      pointwise("panpipe_nn::add_to_later_streams", kKeepsNothing, "streams x"),
      pointwise("panpipe_nn::like_magnitude", kMultiply, "self other"),
      pointwise("aten::tanh", kTanh, "self", "torch.tanh({self})"),
      pointwise("aten::relu", kAnyOperator, "self", "F.relu({self})"),
      pointwise("aten::sigmoid", kAnyOperator, "self", "torch.sigmoid({self})"),
      pointwise("aten::neg", kMove, "self", "-{self}"),
      pointwise("aten::logical_and", kAnyOperator, "self other"),
      pointwise("aten::masked_fill", kMaskedFill, "self mask value"),
      pointwise("aten::where", kAnyOperator, "condition self other"),
      pointwise("aten::div", kDivide, "self other"),
      pointwise("aten::pow", kAnyOperator, "self exponent"),
      pointwise("aten::clamp", kAnyOperator, "self min max"),
      pointwise("aten::hardtanh", kAnyOperator, "self min_val max_val"),

      row("aten::dropout", Role::Dropout, Along::Tokens, kDropout, "input p train",
          {.aliasing = Aliasing::IfUnchanged, .draws = true, .torch = "F.dropout({input}, {p})"}),
      row("aten::alpha_dropout", Role::Dropout, Along::Tokens, kAnyOperator, "input p train",
          {.aliasing = Aliasing::IfUnchanged, .draws = true}),
      row("aten::feature_dropout", Role::Dropout, Along::Mixed, kAnyOperator, "input p train",
          {.aliasing = Aliasing::IfUnchanged, .draws = true}),
      draw("aten::feature_alpha_dropout", Role::Dropout, Along::Mixed, "input p train"),
      draw("aten::native_dropout", Role::Dropout, Along::Tokens, "input p train"),
      row("aten::rrelu", Role::Other, Along::Mixed, kAnyOperator, "self", {.aliasing = Aliasing::IfUnchanged, .draws = true}),

      row("aten::to.dtype", Role::Cast, Along::Tokens, kCast, "self dtype non_blocking copy memory_format",
          {.aliasing = Aliasing::IfUnchanged, .torch = "{self}.to({dtype})"}),
      row("aten::to", Role::Cast, Along::Tokens, kCast, "self", {.aliasing = Aliasing::IfUnchanged}),
      row("aten::type_as", Role::Cast, Along::Tokens, kCast, "self other", {.aliasing = Aliasing::IfUnchanged}),

      // Views
      row("aten::detach", Role::View, Along::Tokens, kAnyOperator, "self", {.aliasing = Aliasing::View, .detaches = true}),
      view("aten::expand", "self size implicit", "{self}.expand({size})"),
      view("aten::permute", "self dims", "{self}.permute({dims})"),
      view("aten::select", "self dim index", "{self}.select({dim}, {index})"),
      view("aten::slice", "self dim start end step", "{self}.narrow({dim}, {start}, {length})"),
      view("aten::transpose", "self dim0 dim1", "{self}.transpose({dim0}, {dim1})"),
      view("aten::unsqueeze", "self dim", "{self}.unsqueeze({dim})"),
      view("aten::view", "self size", "{self}.view({size})"),
      parts("aten::split", "self split_size dim", "{self}.split({split_size}, {dim})"),
      reshape("aten::reshape", "self shape", "{self}.reshape({shape})"),

      // Copies and sums that keep nothing
      row("aten::cat", Role::Copy, Along::Tokens, kConcatenation, "tensors dim", {.torch = "torch.cat({tensors}, {dim})"}),
      copy("aten::stack", Along::Tokens, "tensors dim"),
      row("aten::copy_", Role::Copy, Along::Tokens, kAnyOperator, "self src"),
      row("aten::upsample_nearest2d.vec", Role::Copy, Along::Mixed, kUpsample, "input output_size scale_factors"),
      row("aten::pad", Role::Padding, Along::Mixed, kKeepsNothing, "self", {.aliasing = Aliasing::IfUnchanged}),
      row("aten::constant_pad_nd", Role::Padding, Along::Mixed, kKeepsNothing, "self"),

      // Tables and losses
      row("aten::embedding", Role::Embedding, Along::Tokens, kEmbedding, "weight indices padding_idx scale_grad_by_freq sparse",
          {.torch = "F.embedding({indices}, {weight})"}),
      row("aten::embedding_bag", Role::Embedding, Along::Mixed, kAnyOperator, "weight indices"),
      row("aten::cross_entropy_loss", Role::Loss, Along::Summed, kCrossEntropy,
          "self target weight reduction ignore_index label_smoothing",
          {.torch = "F.cross_entropy({self}, {target}, ignore_index={ignore_index})"}),
      row("panpipe::vocabulary_parallel_cross_entropy", Role::Loss, Along::Summed, kVocabularyCrossEntropy,
          "self target first_row vocabulary ignore_index"),
      row("aten::nll_loss", Role::Other, Along::Mixed, kAnyOperator, "self target weight reduction ignore_index"),
      row("aten::nll_loss_nd", Role::Other, Along::Mixed, kAnyOperator, "self target weight reduction ignore_index"),
      row("aten::mse_loss", Role::Loss, Along::Mixed, kSquaredError, "self target reduction"),

      // Experts
      row("panpipe_nn::route", Role::Routing, Along::Tokens, kRoute, "logits correction per_token sigmoid normalized scale"),
      row("panpipe_nn::dispatch", Role::ExpertRows, Along::Tokens, kDispatch, "rows chosen"),
      row("panpipe_nn::combine", Role::ExpertRows, Along::Tokens, kCombine, "rows weights chosen"),
      row("panpipe_nn::regroup", Role::Regroup, Along::Tokens, kRegroup, "rows counts back"),

      // Between ranks
      // Keys or values of the whole sequence. The attention that reads them exchanges them, and its backward does so again, so a
      // rank keeps only its own.
      row("panpipe::context_keys", Role::Collective, Along::Tokens, kAnyOperator, "self", {.aliasing = Aliasing::View}),
      row("panpipe::exchange_heads", Role::HeadExchange, Along::Tokens, kCollective, "self grows shrinks"),
      transfer("panpipe::send_to_experts", "rows given"),
      transfer("panpipe::gather_rows", "rows given"),
      transfer("panpipe::scatter_rows", "rows counts"),
      transfer("panpipe::send_back", "rows counts"),

      other("aten::broadcast_tensors", "tensors"),
      other("aten::index", "self indices"),
  };
}

// Those between blanks.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), words.back().size() + 1)))
    words.push_back(text.substr(0, text.find(' ')));
  return words;
}

// Operators that differ in nothing but their names.
std::vector<std::pair<OperatorRow, std::string_view>> alike() {
  return {
      {convolution("", kConvolution), "aten::conv1d aten::conv3d"},
      {convolution("", kTransposedConvolution), "aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d"},
      {OperatorRow{"", Role::Norm, Along::Mixed, &kAnyOperator, "input"},
       "aten::batch_norm aten::instance_norm aten::native_batch_norm aten::_native_batch_norm_legit aten::cudnn_batch_norm "
       "aten::native_group_norm aten::native_layer_norm aten::_fused_rms_norm"},
      {pointwise("", kActivation), "aten::cos aten::sin"},
      {pointwise("", kAnyOperator), "aten::logical_not aten::rsqrt aten::softplus"},
      {pointwise("", kMove, "self other"), "aten::lt aten::ge aten::logical_or"},
      {view(""),
       "aten::_reshape_alias aten::_unsafe_view aten::adjoint aten::alias aten::as_strided aten::atleast_1d aten::atleast_2d "
       "aten::atleast_3d aten::broadcast_to aten::conj aten::diagonal aten::expand_as aten::imag aten::lift_fresh aten::mH "
       "aten::mT aten::matrix_H aten::moveaxis aten::movedim aten::narrow aten::numpy_T aten::positive aten::real aten::squeeze "
       "aten::swapaxes aten::swapdims aten::t aten::unflatten aten::unfold aten::view_as aten::view_as_complex "
       "aten::view_as_real"},
      {parts(""),
       "aten::chunk aten::dsplit aten::hsplit aten::split_with_sizes aten::tensor_split aten::unbind aten::unsafe_chunk "
       "aten::unsafe_split aten::vsplit"},
      {reshape(""), "aten::contiguous aten::flatten aten::ravel aten::reshape_as"},
      {row("", Role::View, Along::Tokens, kAnyOperator, "self", {.aliasing = Aliasing::IfReal}),
       "aten::resolve_conj aten::resolve_neg"},
      {copy("", Along::Tokens), "aten::clone"},
      {copy("", Along::Mixed), "aten::repeat aten::roll aten::flip"},
      {row("", Role::Other, Along::Mixed, kKeepsNothing, "self"), "aten::sum aten::mean aten::cumsum"},
      {draw("", Role::Recurrent, Along::Mixed, ""), "aten::lstm aten::gru aten::rnn_tanh aten::rnn_relu"},
      {collective(""), "panpipe::copy_to_tensor_parallel panpipe::reduce_from_tensor_parallel"},
      {collective("", "self dim"),
       "panpipe::gather_from_sequence_parallel panpipe::reduce_scatter_to_sequence_parallel panpipe::gather_sequence "
       "panpipe::scatter_to_sequence_parallel"},
      {other(""), "aten::adaptive_avg_pool2d aten::lift_fresh_copy aten::max_pool2d aten::sort aten::std aten::zeros_like"},
      {other("", ""), "aten::arange aten::full aten::zeros"},
  };
}

std::vector<OperatorRow> make_rows() {
  std::vector<OperatorRow> rows = listed_rows();
  for (const auto& [row, names] : alike())
    for (const std::string_view name : words_of(names)) rows.emplace_back(row).name = name;
  rows.push_back(other("aten::", ""));  // the last
  return rows;
}

// Without its overload, and without the mark of its in-place form: "aten::squeeze" of "aten::squeeze_.dim".
std::string_view base_name(std::string_view target) {
  if (works_in_place(target)) return target.substr(0, std::min(target.find('.'), target.size()) - 1);
  return target.substr(0, target.find('.'));
}

struct OperatorTable {
  struct Named {
    const OperatorRow* row = nullptr;           // of any overload
    std::vector<const OperatorRow*> overloads;  // that have a row of their own
  };
  std::vector<OperatorRow> rows = make_rows();
  std::unordered_map<std::string_view, Named> by_name;

  OperatorTable() {
    for (OperatorRow& row : rows) {
      read_arguments(row);
      Named& named = by_name[base_name(row.name)];
      if (row.name.find('.') == row.name.npos)
        named.row = &row;
      else
        named.overloads.push_back(&row);
    }
  }

  static void read_arguments(OperatorRow& row) {
    constexpr std::string_view kByHead = ":head";
    for (std::string_view name : words_of(row.arguments)) {
      if (name.ends_with(kByHead)) {
        name.remove_suffix(kByHead.size());
        row.by_head.push_back(static_cast<int>(row.names.size()));
      }
      row.names.push_back(name);
    }
  }
};

template <class Names>
int position_in(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

const OperatorTable& table() {
  static const OperatorTable made;
  return made;
}

const OperatorRow* look_up(std::string_view target) {
  const OperatorTable& known = table();
  if (const auto found = known.by_name.find(base_name(target)); found != known.by_name.end()) {
    const auto overload = [](std::string_view name) { return name.substr(std::min(name.find('.'), name.size())); };
    for (const OperatorRow* row : found->second.overloads)
      if (overload(row->name) == overload(target)) return row;
    if (found->second.row != nullptr) return found->second.row;
  }
  return target.starts_with("aten::") ? &known.rows.back() : nullptr;
}

struct TargetHash {
  using is_transparent = void;
  // Names begin with their library, and their ends differ.
  std::size_t operator()(std::string_view target) const {
    std::uint64_t end = 0;
    const std::size_t bytes = std::min(target.size(), sizeof(end));
    std::memcpy(&end, target.data() + target.size() - bytes, bytes);
    return (end ^ target.size()) * 0x9E3779B97F4A7C15u >> 7;
  }
};

}  // namespace

int OperatorRow::position(std::string_view argument) const { return position_in(names, argument); }

bool works_in_place(std::string_view target) {
  target = target.substr(0, target.find('.'));
  return target.ends_with('_') && !target.ends_with("__");
}

const std::vector<OperatorRow>& operator_rows() { return table().rows; }

const OperatorRow* find_row(std::string_view target) {
  // Graphs name the same few operators thousands of times.
  thread_local std::unordered_map<std::string, const OperatorRow*, TargetHash, std::equal_to<>> rows;
  if (const auto known = rows.find(target); known != rows.end()) return known->second;
  return rows.emplace(target, look_up(target)).first->second;
}

const OperatorRow& row_of(const Operator& op) {
  if (const OperatorRow* row = find_row(op.target)) return *row;
  throw InputError(fmt::format("the operator '{}' at '{}' is not known: its work cannot be counted", op.target, op.module));
}

bool is_over_classes(const Operator& op) {
  const OperatorRow& row = row_of(op);
  return row.role == OperatorRole::Loss && row.takes("ignore_index");
}

bool communicates(const Operator& op) {
  return op.forward_collective != CollectiveKind::None || op.backward_collective != CollectiveKind::None ||
         row_of(op).between_ranks();
}

const Argument* argument(const Operator& op, const OperatorRow& row, std::string_view name) {
  const int position = op.argument_names.empty() ? row.position(name) : position_in(op.argument_names, name);
  return position < 0 || at(position) >= op.arguments.size() ? nullptr : &op.arguments[position];
}

const Argument* argument(const Operator& op, std::string_view name) {
  static const OperatorRow kUnknown;
  const OperatorRow* row = find_row(op.target);
  return argument(op, row == nullptr ? kUnknown : *row, name);
}

int tensor_of(const Argument* argument) {
  const auto* reference = argument == nullptr ? nullptr : std::get_if<TensorRef>(argument);
  return reference == nullptr ? -1 : reference->tensor;
}

int first_tensor(const Operator& op) { return op.arguments.empty() ? -1 : tensor_of(&op.arguments.front()); }

int tensor_argument(const Operator& op, std::string_view name) { return tensor_of(argument(op, name)); }

}  // namespace panpipe
