// Visibility of symbols.
//
// The library is compiled with -fvisibility=hidden: only what carries TRIPONT_EXPORT can be seen by
// the Python extension module, and nothing else leaks into a process that also holds other copies
// of common libraries.
#ifndef TRIPONT_CORE_RUNTIME_EXPORT_H_
#define TRIPONT_CORE_RUNTIME_EXPORT_H_

#define TRIPONT_EXPORT [[gnu::visibility("default")]]

#endif  // TRIPONT_CORE_RUNTIME_EXPORT_H_
