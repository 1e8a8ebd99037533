#include "core/runtime/backends/sycl/build_log.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <vector>

namespace tripont::sycl {
namespace {

// The part of OpenCL's C API (2.1) that a build log takes, declared by its specification.
using ClHandle = void*;
constexpr uint64_t kAllDeviceTypes = 0xFFFFFFFF;
constexpr uint32_t kDeviceName = 0x102B;
constexpr uint32_t kProgramBuildLog = 0x1183;

struct OpenCl {
  int32_t (*GetPlatformIDs)(uint32_t, ClHandle*, uint32_t*);
  int32_t (*GetDeviceIDs)(ClHandle, uint64_t, uint32_t, ClHandle*, uint32_t*);
  int32_t (*GetDeviceInfo)(ClHandle, uint32_t, size_t, void*, size_t*);
  ClHandle (*CreateContext)(const intptr_t*, uint32_t, const ClHandle*, void*, void*, int32_t*);
  int32_t (*ReleaseContext)(ClHandle);
  ClHandle (*CreateProgramWithIL)(ClHandle, const void*, size_t, int32_t*);
  int32_t (*BuildProgram)(ClHandle, uint32_t, const ClHandle*, const char*, void*, void*);
  int32_t (*GetProgramBuildInfo)(ClHandle, ClHandle, uint32_t, size_t, void*, size_t*);
  int32_t (*ReleaseProgram)(ClHandle);

  // Whether the SYCL runtime has opened the loader, and it has all functions.
  bool Resolve() {
    void* const library = dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return false;
    bool found = true;
    const auto resolve = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      found = found && function != nullptr;
    };
    resolve(GetPlatformIDs, "clGetPlatformIDs");
    resolve(GetDeviceIDs, "clGetDeviceIDs");
    resolve(GetDeviceInfo, "clGetDeviceInfo");
    resolve(CreateContext, "clCreateContext");
    resolve(ReleaseContext, "clReleaseContext");
    resolve(CreateProgramWithIL, "clCreateProgramWithIL");
    resolve(BuildProgram, "clBuildProgram");
    resolve(GetProgramBuildInfo, "clGetProgramBuildInfo");
    resolve(ReleaseProgram, "clReleaseProgram");
    return found;
  }
};

// The text that `get(size, buffer, needed)` gives when asked for its size first.
template <typename Get>
std::string Text(const Get& get) {
  size_t size = 0;
  if (get(0, nullptr, &size) != 0 || size == 0) return "";
  std::string text(size, '\0');
  if (get(size, text.data(), nullptr) != 0) return "";
  text.resize(text.find_last_not_of(std::string("\0 \n", 3)) + 1);
  return text;
}

std::vector<ClHandle> Devices(const OpenCl& cl) {
  std::vector<ClHandle> all;
  uint32_t count = 0;
  if (cl.GetPlatformIDs(0, nullptr, &count) != 0) return all;
  std::vector<ClHandle> platforms(count);
  cl.GetPlatformIDs(count, platforms.data(), nullptr);
  for (ClHandle platform : platforms) {
    uint32_t number = 0;
    if (cl.GetDeviceIDs(platform, kAllDeviceTypes, 0, nullptr, &number) != 0) continue;
    std::vector<ClHandle> devices(number);
    cl.GetDeviceIDs(platform, kAllDeviceTypes, number, devices.data(), nullptr);
    all.insert(all.end(), devices.begin(), devices.end());
  }
  return all;
}

std::string BuildOn(const OpenCl& cl, ClHandle device, std::string_view spirv) {
  int32_t error = 0;
  ClHandle context = cl.CreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  if (error != 0) return "";
  std::string log;
  ClHandle program = cl.CreateProgramWithIL(context, spirv.data(), spirv.size(), &error);
  if (error == 0) {
    cl.BuildProgram(program, 1, &device, "", nullptr, nullptr);
    log = Text([&](size_t size, void* text, size_t* needed) {
      return cl.GetProgramBuildInfo(program, device, kProgramBuildLog, size, text, needed);
    });
    cl.ReleaseProgram(program);
  }
  cl.ReleaseContext(context);
  return log;
}

}  // namespace

std::string OpenClBuildLog(const std::string& device_name, std::string_view spirv) {
  OpenCl cl{};
  if (!cl.Resolve()) return "";
  for (ClHandle device : Devices(cl)) {
    const std::string name = Text([&](size_t size, void* text, size_t* needed) {
      return cl.GetDeviceInfo(device, kDeviceName, size, text, needed);
    });
    if (name.find(device_name) != std::string::npos) return BuildOn(cl, device, spirv);
  }
  return "";
}

std::string RuntimeLog(const std::function<void()>& failing) {
  static auto* const mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  constexpr char kVerbosity[] = "DPCTL_VERBOSITY";
  const char* const old = std::getenv(kVerbosity);
  const std::string saved = old != nullptr ? old : "";
  setenv(kVerbosity, "warning", /*overwrite=*/1);
  std::ostringstream text;
  std::streambuf* const buffer = std::cerr.rdbuf(text.rdbuf());
  failing();
  std::cerr.rdbuf(buffer);
  old != nullptr ? setenv(kVerbosity, saved.c_str(), 1) : unsetenv(kVerbosity);
  return std::move(text).str();
}

}  // namespace tripont::sycl
