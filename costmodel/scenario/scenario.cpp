#include "costmodel/scenario/scenario.hpp"
