// Intrusive reference counts.
#ifndef TRIPONT_CORE_RUNTIME_REF_COUNTED_H_
#define TRIPONT_CORE_RUNTIME_REF_COUNTED_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace tripont {

// Base of objects that several owners share. A new object has no owner yet: the first Ref makes it
// owned, and the last one to go deletes it. Thread-safe.
template <typename T>
class RefCounted {
 public:
  void AddReference() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void DropReference() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete static_cast<const T*>(this);
  }

 protected:
  RefCounted() = default;
  ~RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

 private:
  mutable std::atomic<int32_t> references_{0};
};

// An owning pointer to a RefCounted object, or null.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}              // NOLINT: implicit on purpose
  Ref(T* object) : object_(object) {  // NOLINT: implicit on purpose; takes a share
    if (object_ != nullptr) object_->AddReference();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->DropReference();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

  // Gives the share away without dropping it (for a C handle); Adopt takes it back.
  T* Leak() { return std::exchange(object_, nullptr); }
  static Ref Adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Arguments>
Ref<T> MakeRef(Arguments&&... arguments) {
  return Ref<T>(new T(std::forward<Arguments>(arguments)...));
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_REF_COUNTED_H_
