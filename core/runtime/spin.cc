#include "core/runtime/spin.h"

#include <atomic>

namespace tripont {
namespace {

std::atomic<std::chrono::microseconds> patient_spin{std::chrono::microseconds::zero()};

}  // namespace

std::chrono::microseconds PatientSpin() { return patient_spin.load(std::memory_order_relaxed); }

void SetPatientSpin(std::chrono::microseconds time) {
  patient_spin.store(time, std::memory_order_relaxed);
}

}  // namespace tripont
