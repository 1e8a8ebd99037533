// Threads that run programs, and how much of their stacks programs need.
//
// Generated code keeps blocks of matrices and transforms on the stack, at most kStackOfFunction in one function (the
// compiler checks that). The first touch of memory below a stack ends the process, and a thread's stack can be small:
// `ulimit -s`, a host's own threads, coroutines. So streams have threads of this class, and a caller runs a program on
// its own thread only if enough is left there (LoadedProgram::stack_bytes). (oneTBB's workers have 4 MB.)
#ifndef TRIPONT_CORE_RUNTIME_THREAD_H_
#define TRIPONT_CORE_RUNTIME_THREAD_H_

#include <pthread.h>

#include <cstddef>
#include <functional>

namespace tripont {

// Bytes. The compiler's copy is MOST_STACK in core/compiler/codegen/llvm_ir/builder.py.
constexpr size_t kStackOfFunction = size_t{1} << 20;
// For each level of thunks in thunks, which are read, checked, loaded and run by functions that call themselves.
constexpr size_t kStackOfLevel = size_t{1} << 10;
// For what these call: library calls, MPI, the loader.
constexpr size_t kStackOfCalls = size_t{128} << 10;

// Bytes that the calling thread has left of its stack. None on a stack that is not the thread's own, as a coroutine's,
// because nobody knows its size.
size_t StackLeft();

// A joinable thread with at least 8 MB of stack. Not thread-safe: its owner starts it, asks and joins.
class Thread {
 public:
  static constexpr size_t kStack = size_t{8} << 20;

  Thread() = default;
  ~Thread();  // must not be joinable
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Must not be joinable. Throws std::system_error if no thread can be started.
  void Start(std::function<void()> run);
  bool joinable() const { return joinable_; }
  void join();

 private:
  pthread_t thread_{};
  bool joinable_ = false;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_THREAD_H_
