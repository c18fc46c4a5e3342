#include "costmodel/profile/framework.hpp"
