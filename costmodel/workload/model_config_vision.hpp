// Models of text and images by config.json: which tower stands in front of which text class. Internal to this folder.
#pragma once

#include "costmodel/workload/model_config_reader.hpp"
#include "costmodel/workload/vision_tower.hpp"

namespace panpipe {

struct VisionClass {
  const char* type;  // of the whole
  const char* name;
  const char* text;   // the class of its text part, where the file's keys stand at the top
  int default_image;  // pixels of a side, where the file states none
  bool tied;          // likewise, embedding and head
  // `root`: keys of the whole, `vision`: those of `vision_config`.
  void (*apply)(ConfigReader& root, ConfigReader& vision, int hidden, VisionTower& tower);
};

const std::vector<VisionClass>& vision_classes();  // model_config_towers.cpp
// nullptr: no class of this type is known.
const VisionClass* vision_class(const Node& root);
// Keys of the whole that state the images of a sample: `images_per_sample` and `image_size`, a side in pixels or [height, width].
// Otherwise one image, of the size that the tower has; a file without a tower, or a sequence that is shorter than
// that image, has none. No images: nullptr, and the text part stands alone.
std::shared_ptr<const VisionTower> read_tower(const Node& root, const VisionClass& of, const ModelDimensions& text, ReadLog& log,
                                              ModelConfig& made);

}  // namespace panpipe
