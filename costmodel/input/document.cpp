#include "costmodel/input/document.hpp"
