// The U-Net of Stable Diffusion XL, named as Hugging Face's diffusers names it: three levels of residual blocks with
// transformer blocks in the lower two, skip connections from every block of the way down to its mirror on the way up, cross
// attention to the text, and conditioning on time step, pooled text and image size. Loss: mean squared error of the noise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"

namespace panpipe {
namespace {

constexpr int kLevels = 3;           // channels x1, x2, x4
constexpr int kResnetsPerLevel = 2;  // one more on the way up
constexpr int kGroups = 32;
constexpr int kLatentChannels = 4;
constexpr int kTextFeatures = 2048;  // two text encoders side by side: 768 + 1280
constexpr int kPooledFeatures = 1280;
constexpr int kSizeNumbers = 6;     // original size, crop, target size
constexpr int kSizeFeatures = 256;  // sinusoidal features of each of them
constexpr double kUnetEpsilon = 1e-5;
constexpr double kTransformerEpsilon = 1e-6;  // group norm in front of the transformer blocks

// A weight's initial values: PyTorch's default, uniform in +-1/sqrt(fan-in).
std::string default_init(std::int64_t fan_in) {
  return fmt::format("uniform({:.6g})", 1.0 / std::sqrt(static_cast<double>(fan_in)));
}

class Unet {
 public:
  Unet(GraphBuilder& builder, const ModelDimensions& dimensions)
      : g(builder), d(dimensions), batch(builder.request().degrees.micro) {}

  int build() {
    read_inputs();
    int x = embed();
    x = way_down(x);
    x = middle(x);
    x = way_up(x);
    return head(x);
  }

 private:
  int channels(int level) const { return d.hidden << level; }
  int heads(int level) const { return d.heads << level; }
  // Transformer blocks per residual block: none at the top, `layers` at the bottom, a fifth between (0, 2, 10 as published).
  int depth(int level) const { return level == 0 ? 0 : level == kLevels - 1 ? d.layers : std::max(1, d.layers / 5); }

  int linear(int x, const std::string& name, std::int64_t out, bool bias = true) {
    const std::string init = default_init(g.shape(x).back());
    return g.linear(x, name, out, {.bias = bias, .init = init});
  }

  void read_inputs() {
    const DType type = g.compute();
    latents = g.input("sample", type, {batch, kLatentChannels, d.image, d.image});
    times = g.input("timestep", DType::Int64, {batch});
    text = g.input("encoder_hidden_states", type, {batch, d.sequence, kTextFeatures});
    pooled_text = g.input("text_embeds", type, {batch, kPooledFeatures});
    sizes = g.input("time_ids", DType::Int64, {batch, kSizeNumbers});
    noise = g.input("noise", type, {batch, kLatentChannels, d.image, d.image});
  }

  // cos and sin of number x frequency, `features` of them for each number.
  int sinusoid(int numbers, std::int64_t features, const std::string& buffer_name) {
    const int frequencies = g.buffer(buffer_name, DType::Float32, {features / 2}, "sinusoid_frequencies(10000)");
    const int last = static_cast<int>(g.shape(numbers).size());
    const int angles = g.mul(g.unsqueeze(g.cast(numbers, DType::Float32), last), frequencies);
    return g.cast(g.cat({g.unary("cos", angles), g.unary("sin", angles)}, last), g.compute());
  }

  int two_layers(int x, const std::string& name) {
    const int hidden = linear(x, name + ".linear_1", 4 * d.hidden);
    return linear(g.unary("silu", hidden), name + ".linear_2", 4 * d.hidden);
  }

  int embed() {
    g.unit("embedding");
    g.module("time_proj");
    const int time = two_layers(sinusoid(times, d.hidden, "time_proj.frequencies"), "time_embedding");
    g.module("add_time_proj");
    const int size_features =
        g.view(sinusoid(sizes, kSizeFeatures, "add_time_proj.frequencies"), {batch, std::int64_t{kSizeNumbers} * kSizeFeatures});
    const int added = two_layers(g.cat({pooled_text, size_features}, 1), "add_embedding");
    condition = g.add(time, added);
    return g.conv2d(latents, "conv_in", d.hidden, 3, 1, 1);
  }

  // `skip`: joined with x first, on the way up.
  int resnet(int x, const std::string& name, std::int64_t out, int skip = -1) {
    g.unit(name, name);
    g.module(name);
    if (skip >= 0) x = g.cat({x, skip}, 1);
    const std::int64_t in = g.shape(x)[1];
    int y = g.unary("silu", g.group_norm(x, name + ".norm1", kGroups, kUnetEpsilon));
    y = g.conv2d(y, name + ".conv1", out, 3, 1, 1);
    g.module(name + ".time_emb_proj");
    const int shift = linear(g.unary("silu", condition), name + ".time_emb_proj", out);
    y = g.add(y, g.unsqueeze(g.unsqueeze(shift, 2), 3));
    y = g.unary("silu", g.group_norm(y, name + ".norm2", kGroups, kUnetEpsilon));
    y = g.conv2d(g.dropout(y), name + ".conv2", out, 3, 1, 1);
    const int shortcut = in == out ? x : g.conv2d(x, name + ".conv_shortcut", out, 1, 1, 0);
    return g.add(shortcut, y);
  }

  int attention(int x, int context, const std::string& name, std::int64_t head_count) {
    const std::int64_t width = g.shape(x).back(), head_size = width / head_count;
    const auto project = [&](int from, const char* part) {
      const std::int64_t tokens = g.shape(from)[1];
      return g.transpose(g.view(linear(from, name + part, width, false), {batch, tokens, head_count, head_size}), 1, 2);
    };
    const int q = project(x, ".to_q"), k = project(context, ".to_k"), v = project(context, ".to_v");
    g.module(name);
    const int mixed = g.transpose(g.attention(q, k, v, {.causal = false}), 1, 2);
    return linear(g.reshape(mixed, g.shape(x)), name + ".to_out.0", width);
  }

  int transformer_block(int x, const std::string& name, std::int64_t head_count) {
    const std::int64_t width = g.shape(x).back();
    const int self = g.layer_norm(x, name + ".norm1", kUnetEpsilon);
    x = g.add(attention(self, self, name + ".attn1", head_count), x);
    x = g.add(attention(g.layer_norm(x, name + ".norm2", kUnetEpsilon), text, name + ".attn2", head_count), x);
    const int wide = linear(g.layer_norm(x, name + ".norm3", kUnetEpsilon), name + ".ff.net.0.proj", 8 * width);
    const std::vector<int> halves = g.split(wide, 4 * width, 2);
    return g.add(linear(g.mul(halves[0], g.gelu(halves[1], "none")), name + ".ff.net.2", width), x);
  }

  // `blocks` transformer blocks on the image's pixels as tokens, inside one residual connection.
  int transformer(int x, const std::string& name, int blocks, std::int64_t head_count) {
    const Shape image = g.shape(x);
    const std::int64_t width = image[1];
    int y = x;
    for (int i = 0; i < blocks; ++i) {
      const std::string block = fmt::format("{}.transformer_blocks.{}", name, i);
      g.unit(block, block, layer++);
      if (i == 0) {
        y = g.group_norm(x, name + ".norm", kGroups, kTransformerEpsilon);
        y = linear(g.reshape(g.permute(y, {0, 2, 3, 1}), {batch, image[2] * image[3], width}), name + ".proj_in", width);
      }
      y = transformer_block(y, block, head_count);
    }
    y = g.view(linear(y, name + ".proj_out", width), {batch, image[2], image[3], width});
    return g.add(g.permute(y, {0, 3, 1, 2}), x);
  }

  int way_down(int x) {
    skips = {x};
    for (int level = 0; level < kLevels; ++level) {
      const std::string name = fmt::format("down_blocks.{}", level);
      for (int i = 0; i < kResnetsPerLevel; ++i) {
        x = resnet(x, fmt::format("{}.resnets.{}", name, i), channels(level));
        if (depth(level) > 0) x = transformer(x, fmt::format("{}.attentions.{}", name, i), depth(level), heads(level));
        skips.push_back(x);
      }
      if (level == kLevels - 1) break;
      g.unit(name + ".downsamplers.0");
      x = g.conv2d(x, name + ".downsamplers.0.conv", channels(level), 3, 2, 1);
      skips.push_back(x);
    }
    return x;
  }

  int middle(int x) {
    const int level = kLevels - 1;
    x = resnet(x, "mid_block.resnets.0", channels(level));
    x = transformer(x, "mid_block.attentions.0", depth(level), heads(level));
    return resnet(x, "mid_block.resnets.1", channels(level));
  }

  int way_up(int x) {
    for (int level = kLevels - 1; level >= 0; --level) {
      const std::string name = fmt::format("up_blocks.{}", kLevels - 1 - level);
      for (int i = 0; i <= kResnetsPerLevel; ++i) {
        x = resnet(x, fmt::format("{}.resnets.{}", name, i), channels(level), skips.back());
        skips.pop_back();
        if (depth(level) > 0) x = transformer(x, fmt::format("{}.attentions.{}", name, i), depth(level), heads(level));
      }
      if (level == 0) break;
      g.unit(name + ".upsamplers.0");
      g.module(name + ".upsamplers.0");
      const int large = g.upsample_nearest(x, 2 * g.shape(x)[2], 2 * g.shape(x)[3]);
      x = g.conv2d(large, name + ".upsamplers.0.conv", channels(level), 3, 1, 1);
    }
    return x;
  }

  int head(int x) {
    g.unit("head");
    x = g.unary("silu", g.group_norm(x, "conv_norm_out", kGroups, kUnetEpsilon));
    const int predicted = g.conv2d(x, "conv_out", kLatentChannels, 3, 1, 1);
    g.module("loss");
    return g.mse_loss(predicted, noise);
  }

  GraphBuilder& g;
  const ModelDimensions& d;
  std::int64_t batch;
  int latents = -1, times = -1, text = -1, pooled_text = -1, sizes = -1, noise = -1;
  int condition = -1;      // time, size and pooled text: read by every residual block
  int layer = 0;           // transformer blocks so far
  std::vector<int> skips;  // tensors of the way down, the latest last
};

}  // namespace

OperatorGraph build_unet(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  if (shape.degrees.tensor > 1)
    throw InputError(fmt::format("{} has no tensor parallelism: convolutions are not cut; use parallel.tensor 1", model));
  constexpr std::size_t kOperatorsPerBlock = 36, kBlocksPerDepth = 8, kOperatorsAround = 400;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerBlock * kBlocksPerDepth + kOperatorsAround);
  g.set_dropout(d.dropout);
  const int loss = Unet(g, d).build();
  return g.finish(loss);
}

}  // namespace panpipe
