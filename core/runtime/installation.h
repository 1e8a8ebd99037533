// What lies around the library and the process that loaded it. For clients that are made without
// options: a framework that knows no more than the library's path passes none.
#ifndef TRIPONT_CORE_RUNTIME_INSTALLATION_H_
#define TRIPONT_CORE_RUNTIME_INSTALLATION_H_

#include <string>
#include <vector>

#include "core/runtime/export.h"

namespace tripont {

// The Python interpreter that runs this process (its `sys.executable` when it started), else the
// one of the environment that the library is installed in, else "". Needs no lock of Python's.
TRIPONT_EXPORT std::string DefaultInterpreter();

// The flags of the interpreter that runs this process which say what code it finds and how it runs
// it (-I, -E, -s, -S, -B, -O); empty if there is none. Needs no lock of Python's.
std::vector<std::string> RunningInterpreterFlags();

// The folder that holds the package `tripont` of this library; "" if it lies elsewhere.
std::string PackageFolder();

// A digest of the names and contents of the compiler's source files beside this library, as they
// were when this was called first; "" if there are none. A worker says the digest of what it has
// imported (tripont/fingerprint.py computes it in the same way). Reads 1.5 MB once.
const std::string& CompilerSources();

// The packages that the compiler is built on, as far as they are installed where this library or
// its interpreter is: such as "llvmlite-0.45.1". Read once.
const std::vector<std::string>& CompilerPackages();

// Changes when the compiler beside this library is edited or another llvmlite or jaxlib is
// installed beside it; "" if there is no compiler beside it. Names, sizes and modification times
// stand for the files' contents. Reads about 150 directory entries.
TRIPONT_EXPORT std::string DefaultCompilerFingerprint();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_INSTALLATION_H_
