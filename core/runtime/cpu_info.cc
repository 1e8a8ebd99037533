#include "core/runtime/cpu_info.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <sstream>

#include "core/runtime/cpu_models.h"
#include "core/runtime/strings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tripont {
namespace {

#if defined(__x86_64__)

enum Register { kEax, kEbx, kEcx, kEdx };

// What the operating system must save for a feature to be usable: bits of XCR0.
constexpr uint64_t kAvxState = 0x6;
constexpr uint64_t kAvx512State = 0xe6;
constexpr uint64_t kAmxState = 0x60000;

struct Feature {
  std::string_view name;  // LLVM's
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  uint32_t bit;
  uint64_t state = 0;
};

// The features of cpus.txt, and those that every CPU of x86-64 has. Source: the CPUID chapters of
// Intel's and AMD's manuals; names as in LLVM's X86.td.
constexpr Feature kFeatures[] = {
    {"sse3", 1, 0, kEcx, 0},
    {"ssse3", 1, 0, kEcx, 9},
    {"fma", 1, 0, kEcx, 12, kAvxState},
    {"cx16", 1, 0, kEcx, 13},
    {"sse4.1", 1, 0, kEcx, 19},
    {"sse4.2", 1, 0, kEcx, 20},
    {"movbe", 1, 0, kEcx, 22},
    {"popcnt", 1, 0, kEcx, 23},
    {"avx", 1, 0, kEcx, 28, kAvxState},
    {"f16c", 1, 0, kEcx, 29, kAvxState},
    {"x87", 1, 0, kEdx, 0},
    {"cx8", 1, 0, kEdx, 8},
    {"cmov", 1, 0, kEdx, 15},
    {"mmx", 1, 0, kEdx, 23},
    {"fxsr", 1, 0, kEdx, 24},
    {"sse", 1, 0, kEdx, 25},
    {"sse2", 1, 0, kEdx, 26},
    {"bmi", 7, 0, kEbx, 3},
    {"avx2", 7, 0, kEbx, 5, kAvxState},
    {"bmi2", 7, 0, kEbx, 8},
    {"avx512f", 7, 0, kEbx, 16, kAvx512State},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512State},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512State},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512State},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512State},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512State},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512State},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512State},
    {"gfni", 7, 0, kEcx, 8},
    {"vaes", 7, 0, kEcx, 9, kAvxState},
    {"vpclmulqdq", 7, 0, kEcx, 10, kAvxState},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512State},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512State},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512State},
    {"amx-bf16", 7, 0, kEdx, 22, kAmxState},
    {"avx512fp16", 7, 0, kEdx, 23, kAvx512State},
    {"amx-tile", 7, 0, kEdx, 24, kAmxState},
    {"amx-int8", 7, 0, kEdx, 25, kAmxState},
    {"avxvnni", 7, 1, kEax, 4, kAvxState},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512State},
    {"avxvnniint8", 7, 1, kEdx, 4, kAvxState},
    {"sahf", 0x80000001, 0, kEcx, 0},
    {"lzcnt", 0x80000001, 0, kEcx, 5},
    {"64bit", 0x80000001, 0, kEdx, 29},
};

using Registers = std::array<uint32_t, 4>;

Registers Cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r{};
  const uint32_t highest = __get_cpuid_max(leaf & 0x80000000u, nullptr);
  if (leaf > highest) return r;
  if (leaf == 7 && subleaf > 0) {
    Registers first{};
    __cpuid_count(7, 0, first[0], first[1], first[2], first[3]);
    if (subleaf > first[kEax]) return r;
  }
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  return r;
}

uint64_t EnabledState() {
  if ((Cpuid(1, 0)[kEcx] >> 27 & 1) == 0) return 0;  // no OSXSAVE
  uint32_t low;
  uint32_t high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Asks Linux to let this process use AMX's registers, whose content is 8 KB of a thread's state. It
// refuses where a seccomp filter does, and where a thread has an alternate stack for signals that
// is too small for that. Source: Linux, Documentation/arch/x86/xstate.rst.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

std::vector<std::string> DetectFeatures() {
  uint64_t state = EnabledState();
  if ((state & kAmxState) == kAmxState && !MayUseTiles()) state &= ~kAmxState;
  std::vector<std::string> found;
  for (const Feature& feature : kFeatures) {
    if ((state & feature.state) != feature.state) continue;
    if (Cpuid(feature.leaf, feature.subleaf)[feature.reg] >> feature.bit & 1)
      found.emplace_back(feature.name);
  }
  return found;
}

std::string DetectName() {
  char brand[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = Cpuid(0x80000002 + i, 0);
    std::memcpy(brand + size_t{16} * i, r.data(), 16);
  }
  std::string name(brand);
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "x86-64 CPU" : name;
}

std::string ModelNumber() { return StrCat("x86_64-", Cpuid(1, 0)[kEax]); }

#elif defined(__aarch64__)

struct Feature {
  std::string_view name;  // LLVM's
  int word;               // AT_HWCAP or AT_HWCAP2
  uint32_t bit;
};

// Source: Linux, Documentation/arch/arm64/elf_hwcaps.rst; names as in LLVM's AArch64Features.td.
constexpr Feature kFeatures[] = {
    {"fp-armv8", AT_HWCAP, 0},   {"neon", AT_HWCAP, 1},     {"aes", AT_HWCAP, 3},
    {"sha2", AT_HWCAP, 6},       {"crc", AT_HWCAP, 7},      {"lse", AT_HWCAP, 8},
    {"fullfp16", AT_HWCAP, 9},   {"rdm", AT_HWCAP, 12},     {"jsconv", AT_HWCAP, 13},
    {"complxnum", AT_HWCAP, 14}, {"rcpc", AT_HWCAP, 15},    {"sha3", AT_HWCAP, 17},
    {"sm4", AT_HWCAP, 19},       {"dotprod", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},
    {"fp16fml", AT_HWCAP, 23},   {"sve2", AT_HWCAP2, 1},    {"i8mm", AT_HWCAP2, 13},
    {"bf16", AT_HWCAP2, 14},
};

std::vector<std::string> DetectFeatures() {
  std::vector<std::string> found;
  for (const Feature& feature : kFeatures) {
    if (getauxval(feature.word) >> feature.bit & 1) found.emplace_back(feature.name);
  }
  return found;
}

// The CPU's own word about what it is, its register MIDR_EL1; 0 where the system does not tell. The
// first core's, so that the answer is the same on whichever core of a mixed CPU the process runs.
uint64_t MainId() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  uint64_t value = 0;
  if (file >> std::hex >> value) return value;
  constexpr int kCpuIdBit = 11;  // HWCAP_CPUID: Linux reads the register for processes
  if ((getauxval(AT_HWCAP) >> kCpuIdBit & 1) == 0) return 0;
  __asm__("mrs %0, midr_el1" : "=r"(value));
  return value;
}
uint32_t Implementer() { return MainId() >> 24 & 0xff; }
uint32_t Part() { return MainId() >> 4 & 0xfff; }

struct Core {
  uint32_t implementer;
  uint32_t part;
  const char* name;
};
// Source: the technical reference manuals of Arm's cores.
constexpr Core kCores[] = {
    {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd05, "Cortex-A55"},  {0x41, 0xd08, "Cortex-A72"},
    {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse N1"}, {0x41, 0xd40, "Neoverse V1"},
    {0x41, 0xd49, "Neoverse N2"}, {0x41, 0xd4f, "Neoverse V2"},
};

std::string DetectName() {
  const uint32_t implementer = Implementer();
  const uint32_t part = Part();
  if (implementer == 0) return "AArch64 CPU";
  for (const Core& core : kCores) {
    if (core.implementer == implementer && core.part == part) return StrCat("Arm ", core.name);
  }
  std::ostringstream name;
  name << "AArch64 CPU 0x" << std::hex << implementer << ":0x" << part;
  return name.str();
}
std::string ModelNumber() { return StrCat("aarch64-", Implementer(), "-", Part()); }

#else
#error "tripont's host target supports x86-64 and AArch64"
#endif

// What every CPU of the architecture has, and models do not list.
constexpr std::string_view kBaseline[] = {"64bit", "cmov", "cx8",  "fxsr",
                                          "mmx",   "sse",  "sse2", "x87"};

struct Cpu {
  std::string acting;  // the name of another CPU, or empty
  std::string name;
  std::vector<std::string> features;  // sorted
  std::string fingerprint;
};

Cpu MakeCpu(std::string acting, std::string name, std::vector<std::string> features) {
  std::sort(features.begin(), features.end());
  std::string fingerprint = StrCat(ModelNumber(), ":", StrJoin(features, ","));
  return {std::move(acting), std::move(name), std::move(features), std::move(fingerprint)};
}

const Cpu& ThisCpu() {
  static const auto* const cpu = new Cpu(MakeCpu("", DetectName(), DetectFeatures()));
  return *cpu;
}

// What the process behaves as, if that is another CPU. Never freed.
std::atomic<const Cpu*> acting_cpu{nullptr};

const Cpu& CurrentCpu() {
  const Cpu* const acting = acting_cpu.load(std::memory_order_acquire);
  return acting != nullptr ? *acting : ThisCpu();
}

bool Has(const std::vector<std::string>& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

}  // namespace

Status ActAsCpu(std::string_view name) {
  if (name == ActingCpu()) return OkStatus();
  if (!ActingCpu().empty()) {
    return FailedPrecondition("TRIPONT_CPU=", name, ": this process behaves as ", ActingCpu(),
                              " already");
  }
  TRIPONT_ASSIGN_OR_RETURN(const CpuModel model, FindCpuModel(name));
  const Cpu& machine = ThisCpu();
  if (model.architecture != CpuArchitecture()) {
    return FailedPrecondition("TRIPONT_CPU=", name, " names a CPU of ", model.architecture,
                              ", but this CPU (", machine.name, ") is of ", CpuArchitecture());
  }
  std::vector<std::string> missing;
  for (const std::string& feature : model.features) {
    if (!Has(machine.features, feature)) missing.push_back(feature);
  }
  if (!missing.empty()) {
    return FailedPrecondition("TRIPONT_CPU=", name, ": this CPU (", machine.name,
                              ") lacks instructions of ", name, ": ", StrJoin(missing, ", "));
  }
  std::vector<std::string> features = model.features;
  for (const std::string_view feature : kBaseline) {
    if (Has(machine.features, feature)) features.emplace_back(feature);
  }
  acting_cpu.store(
      new Cpu(MakeCpu(model.name, StrCat(machine.name, " as ", model.name), std::move(features))),
      std::memory_order_release);
  return OkStatus();
}

std::string_view ActingCpu() {
  const Cpu* const acting = acting_cpu.load(std::memory_order_acquire);
  return acting != nullptr ? std::string_view(acting->acting) : std::string_view();
}

const std::vector<std::string>& CpuFeatures() { return CurrentCpu().features; }

bool CpuHasFeature(std::string_view name) { return Has(CpuFeatures(), name); }

int VectorBytes() {
  static const int bytes = [] {
    const auto has_all = [](std::initializer_list<std::string_view> features) {
      return std::all_of(features.begin(), features.end(), CpuHasFeature);
    };
    if (!has_all({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})) return 16;
    if (!has_all({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"})) return 32;
    return 64;
  }();
  return bytes;
}

const std::string& CpuName() { return CurrentCpu().name; }

std::string_view CpuArchitecture() {
#if defined(__x86_64__)
  return "x86_64";
#else
  return "aarch64";
#endif
}

const std::string& CpuFingerprint() { return CurrentCpu().fingerprint; }

}  // namespace tripont
