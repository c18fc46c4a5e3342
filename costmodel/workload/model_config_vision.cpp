// Reads the images of a model of text and images.
#include "costmodel/workload/model_config_vision.hpp"

#include <cmath>

namespace panpipe {
namespace {

constexpr int kMostSide = 1 << 14;    // of an image, in pixels
constexpr int kMostImages = 1 << 10;  // of a sample

// A number, or [height, width].
std::pair<int, int> sides_of(ConfigReader& r, const Node* value, int own) {
  if (value == nullptr) return {own, own};
  if (value->kind == NodeKind::Sequence && value->items.size() == 2) {
    const std::vector<int> both = r.list("image_size");
    return {both[0], both[1]};
  }
  const int side = r.integer("image_size", {"image_size"}, 1, own);
  return {side, side};
}

// Images of a sample, and their size in patches: whole tokens, and no more of them than positions.
void read_images(ConfigReader& r, ConfigReader& v, const VisionClass& of, VisionTower& tower) {
  const int patch = std::max(1, tower.layers.patch), joined = std::max(1, tower.projector.joined);
  const int side = std::max(1, static_cast<int>(std::lround(std::sqrt(joined))));
  const Node* stated = r.find({"image_size"});
  // Towers that do not scale their positions have one size; of others the file states the largest.
  const auto [height, width] = stated != nullptr ? sides_of(r, stated, of.default_image)
                               : tower.one_size  ? sides_of(v, v.find({"image_size"}), of.default_image)
                                                 : std::pair(of.default_image, of.default_image);
  for (const int pixels : {height, width})
    if (pixels < patch || pixels > kMostSide || pixels / patch % side != 0)
      r.error(stated,
              fmt::format("a side of {} pixels is no whole number of tokens of {} x {} pixels{}", pixels, side * patch,
                          side * patch, pixels > kMostSide ? fmt::format(", or more than {}", kMostSide) : ""),
              "image_size states it for the images of a sample");
  tower.height = std::max(1, std::min(height, kMostSide) / patch), tower.width = std::max(1, std::min(width, kMostSide) / patch);
  if (tower.one_size && tower.patches() + (tower.class_token.empty() ? 0 : 1) != tower.position_rows)
    r.error(stated, fmt::format("an image has {} patches, and the tower positions for {}: it does not scale them",
                                tower.patches(), tower.position_rows - (tower.class_token.empty() ? 0 : 1)));
  const int blocks = tower.patch_tokens() / tower.images;
  auto& windows = tower.layers.traits.attention_blocks;
  for (int i = 0; i < tower.layers.layers; ++i) {
    const int window = tower.window_of_layer.empty() ? 0 : tower.window_of_layer[i];
    // Windows at the edges are smaller: the image counts as whole windows of the nearest size that divides it.
    int size = window > 0 && window < blocks ? window : blocks;
    while (blocks % size != 0) ++size;
    windows.push_back(size);
  }
}

}  // namespace

const VisionClass* vision_class(const Node& root) {
  const Node* type = root.kind == NodeKind::Map ? root.find("model_type") : nullptr;
  if (type == nullptr) return nullptr;
  for (const VisionClass& known : vision_classes())
    if (type->text == known.type) return &known;
  return nullptr;
}

std::shared_ptr<const VisionTower> read_tower(const Node& root, const VisionClass& of, const ModelDimensions& text, ReadLog& log,
                                              ModelConfig& made) {
  ConfigReader r(root, log, made);
  const int images = r.integer("images", {"images_per_sample"}, 0, 1);
  const bool asked = r.find({"images_per_sample"}) != nullptr || r.find({"image_size"}) != nullptr;
  const Node* stated = root.find("vision_config");
  if (images == 0 || (!asked && (stated == nullptr || stated->entries.empty()))) return nullptr;
  ModelConfig own;  // what the tower's keys are reported in
  own.type = "vision", own.model = of.name;
  static const Node kNone = [] {
    Node none;
    none.kind = NodeKind::Map;
    return none;
  }();
  ConfigReader v(stated != nullptr && stated->kind == NodeKind::Map ? *stated : kNone, log, own);
  auto tower = std::make_shared<VisionTower>();
  if (images > kMostImages) r.error(r.find({"images_per_sample"}), fmt::format("a sample has at most {} images", kMostImages));
  tower->images = std::min(images, kMostImages);
  of.apply(r, v, text.hidden, *tower);
  read_images(r, v, of, *tower);
  const int out = tower->projector.products.back().features;
  if (out != text.hidden)
    log.error(stated != nullptr ? *stated : root,
              fmt::format("the tower makes {} features, and the text part reads {}", out, text.hidden));
  if (tower->words() >= text.sequence && !asked) return nullptr;
  if (tower->words() >= text.sequence)
    log.error(root, fmt::format("the images of a sample are {} tokens, and its sequence has {}", tower->words(), text.sequence),
              "make the sequence longer, or the images fewer or smaller (images_per_sample, image_size; 0 images: text alone)");
  made.assumptions.push_back(fmt::format("{} image{} of {} x {} patches a sample, {} tokens of its {}", tower->images,
                                         tower->images == 1 ? "" : "s", tower->height, tower->width, tower->words(),
                                         text.sequence));
  r.leave_out("positions of patches in two dimensions");
  if (tower->position_rows > 0 && tower->patches() > tower->position_rows) {
    own.assumptions.push_back(fmt::format("positions for {} patches are scaled to the {} of an image, which costs no more here",
                                          tower->position_rows, tower->patches()));
    own.not_followed.push_back(diagnostic_at(root, own.assumptions.back(), "make the images smaller: image_size"));
  }
  v.report_rest();
  const auto append = [](auto& to, const auto& more) { to.insert(to.end(), more.begin(), more.end()); };
  append(made.values, own.values), append(made.assumptions, own.assumptions);
  append(made.not_computed, own.not_computed), append(made.not_followed, own.not_followed);
  return tower;
}

}  // namespace panpipe
