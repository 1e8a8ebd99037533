// Ctrl-C while a thread waits in here: the handlers of a Python program's signals.
//
// Python runs them on its main thread, between two of its instructions, and that thread may be
// waiting in here for minutes, without Python's lock. The kernel gives a process's signals to its
// main thread, so that a poll() there returns EINTR: whoever waits calls InterruptedBySignal()
// then. A signal that came before the poll(), while the thread was working in here, interrupts
// nothing, so that no poll() of that thread is longer than WithSignalPoll() allows, and
// InterruptedBySignal() is called behind each one that ends without an event. It is not called more
// often because it waits for Python's lock.
//
// Python's functions are looked up by name: this library is not linked with Python, and in a
// process without it no signal interrupts anything.
#ifndef TRIPONT_CORE_RUNTIME_INTERRUPT_H_
#define TRIPONT_CORE_RUNTIME_INTERRUPT_H_

#include <cstdint>

#include "core/runtime/export.h"

namespace tripont {

// Runs the Python functions that handle the signals which have come. True if one of them raised, as
// Python's own does for SIGINT (KeyboardInterrupt): the caller is to give up. The exception is
// kept, and raised as soon as Python code goes on. False on other threads than the main one.
bool InterruptedBySignal();

// How long the calling thread waits for an event until it calls InterruptedBySignal() again: `wait`
// milliseconds (-1: for ever), or 100 where that is less and it is the main thread of a Python.
int64_t WithSignalPoll(int64_t wait);

// Keeps Python's current error in the same way: a KeyboardInterrupt or SystemExit that ended a
// Python function which a program called. With Python's lock. On other threads than the main one
// the error stays where it is, and the result is false.
TRIPONT_EXPORT bool KeepInterrupt();

// Whether an exception is kept, and this is the main thread. Python raises it as soon as the
// function that it has called returns without an error; with one, only after the handlers of that
// error are chosen.
bool InterruptIsKept();

// Makes the exception that was kept Python's current error; false if there is none, or on another
// thread than the main one. For bindings, which raise it themselves instead of the CANCELLED error
// that the interrupted function returned. With Python's lock.
TRIPONT_EXPORT bool RaiseInterrupt();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_INTERRUPT_H_
