// ObjectPool: memory of one class of small objects, which each thread keeps for its next ones.
//
// malloc keeps seven free pieces of a size for each thread (glibc's tcache); to free and to allocate
// the eighth takes 40 ns more. A program of eight results makes and frees eight buffers and eight
// handles an execution.
#ifndef TRIPONT_CORE_RUNTIME_OBJECT_POOL_H_
#define TRIPONT_CORE_RUNTIME_OBJECT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "core/runtime/sanitizers.h"

namespace tripont {

// For the operators new and delete of T, a final class. Define both in one library: a library that
// inlined only one of them would have a pool that never gives or never takes. Thread-safe; memory
// that another thread frees stays with that one.
template <typename T>
class ObjectPool {
 public:
  static void* Allocate() {
    static_assert(std::is_final_v<T>, "a derived class would get too little memory");
    Pool& pool = pool_;
    Piece* const piece = pool.first;
    if (piece == nullptr) return ::operator new(sizeof(T));
    pool.first = piece->next;
    ++pool.room;
    return piece;
  }

  static void Free(void* memory) {
    Pool& pool = pool_;
    if (pool.room == 0) return ::operator delete(memory);
    if (!pool.ends_with_thread) EndWithThread();
    pool.first = new (memory) Piece{pool.first};
    --pool.room;
  }

 private:
  struct Piece {
    Piece* next;
  };
  struct Pool {
    Piece* first = nullptr;
    // How many more pieces may be kept. None under the sanitizers, which must see each end.
    uint32_t room = kSanitized ? 0 : 256;
    bool ends_with_thread = false;
  };
  static_assert(sizeof(T) >= sizeof(Piece) && alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

  // The pool itself has no destructor, so that using it needs no check whether it was made.
  static void EndWithThread() {
    struct End {
      ~End() {
        while (pool_.first != nullptr) ::operator delete(Allocate());
        pool_.room = 0;  // for objects that destructors of the thread free after this one
      }
    };
    static thread_local const End end;
    (void)end;
    pool_.ends_with_thread = true;
  }

  static constinit inline thread_local Pool pool_{};
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_OBJECT_POOL_H_
