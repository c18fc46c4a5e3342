#include "costmodel/estimate/estimate.hpp"
