#include "costmodel/base/error.hpp"
