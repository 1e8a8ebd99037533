// Included before everything else in what uses TensorFlow's C++ headers: Abseil as TensorFlow's
// wheels have compiled it, in C++17.
//
// From C++20 on Abseil's SourceLocation, a parameter of functions of Status, would be another name
// of std::source_location, and those functions would have names that no library of TensorFlow has
// (TensorFlow 2.22; the Abseil of 2.21 has no such option).
#ifndef TRIPONT_NEXTPLUGGABLE_ABSEIL_OPTIONS_H_
#define TRIPONT_NEXTPLUGGABLE_ABSEIL_OPTIONS_H_

#include "absl/base/options.h"

#ifdef ABSL_OPTION_USE_STD_SOURCE_LOCATION
#undef ABSL_OPTION_USE_STD_SOURCE_LOCATION
#define ABSL_OPTION_USE_STD_SOURCE_LOCATION 0
#endif

#endif  // TRIPONT_NEXTPLUGGABLE_ABSEIL_OPTIONS_H_
