// Training recipes whose products of transformer blocks multiply in 8 or 4 bits: formats, scales, copies and casts. One row a
// recipe; time and memory follow from the row (costmodel/cost/narrow_products.hpp, docs/models/compute.md).
#pragma once

#include <span>
#include <string_view>

#include "base/precision.hpp"
#include "costmodel/profile/framework.hpp"

namespace panpipe {

// Products read their operands along the sum: a weight and an activation along rows in the forward, along columns in the
// backward. The copy in columns is cast from the tensor itself, because its blocks are others (Cast); or is the first one turned,
// for products that take rows alone (Turned).
enum class SecondCopy : std::uint8_t { Cast, Turned };

struct Recipe {
  std::string_view title;                    // for people: "NVFP4"
  Precision precision = Precision::Fp8;      // also the rate that a device states
  Fp8Scaling scaling = Fp8Scaling::Delayed;  // of precision fp8
  double element = 1;                        // bytes
  double scales = 0, weight_scales = 0;      // bytes of scales for each element of an activation or a gradient, and of a weight
  int multiple = 16;                         // of which both sizes of a weight are, else the product stays in bf16
  bool reads_largest = false;                // a tensor is read once more before it is cast, for its largest number
  bool norm_finds_largest = false;           // of its result, as it writes it
  SecondCopy second = SecondCopy::Cast;
  double cast_factor = 1;  // time of casts over that of their bytes
  // Products that multiply so; the others in bf16.
  bool forward = true, input_gradient = true, weight_gradient = true;
  double rate_by_rows = 1;      // share of the rate that products by rows alone (before Blackwell) reach with these scales
  bool gathers_inputs = true;   // sequence parallelism gathers inputs and gradients in this format
  bool gathers_weights = true;  // so do replicas weights that are kept in it, else in 2 bytes
  bool compared = false;        // with measured steps
  // What other programs call it; empty: they do not have it.
  std::string_view megatron = {};            // value of --fp8-recipe or --fp4-recipe
  std::string_view transformer_engine = {};  // class of transformer_engine.common.recipe
  std::string_view megatron_bridge = {};     // compute_dtype of its performance scripts
  std::string_view torchao = {};             // name of a recipe
};

std::span<const Recipe> recipes();

// Null for precisions without products in 8 or 4 bits. `scaling` matters to fp8 alone.
const Recipe* find_recipe(Precision precision, Fp8Scaling scaling);
// By the name that Megatron-LM gives it among its recipes of 8 (4) bits; null: unknown.
const Recipe* find_megatron_recipe(std::string_view name, bool four_bits);

// By torchao's name of a recipe of float8; null: unknown.
const Recipe* find_torchao_recipe(std::string_view name);

std::string_view name_of(Fp8Scaling scaling);  // "delayed", ...: as a scenario states it

// The products of a model that a recipe concerns.
struct NarrowScope {
  const Recipe* recipe = nullptr;     // null: none
  int bf16_first = 0, bf16_last = 0;  // blocks that stay in bf16
};
NarrowScope narrow_scope(Precision precision, const Framework& framework);

}  // namespace panpipe
