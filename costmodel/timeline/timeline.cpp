#include "costmodel/timeline/timeline.hpp"
