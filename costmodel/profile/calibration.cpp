#include "costmodel/profile/calibration.hpp"
