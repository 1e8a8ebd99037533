// Ctrl-C while a thread waits in here: the handlers of a Python program's signals.
//
// Python runs them on its main thread, between two of its instructions, and that thread may be
// waiting in here for minutes, without Python's lock. The kernel gives a process's signals to its
// main thread, so that a poll() there returns EINTR: whoever waits calls InterruptedBySignal()
// then, and never otherwise, because it waits for Python's lock.
//
// Python's functions are looked up by name: this library is not linked with Python, and in a
// process without it no signal interrupts anything.
#ifndef TRIPONT_CORE_RUNTIME_INTERRUPT_H_
#define TRIPONT_CORE_RUNTIME_INTERRUPT_H_

#include "core/runtime/export.h"

namespace tripont {

// Runs the Python functions that handle the signals which have come. True if one of them raised, as
// Python's own does for SIGINT (KeyboardInterrupt): the caller is to give up. The exception is
// kept, and raised as soon as Python code goes on. False on other threads than the main one.
bool InterruptedBySignal();

// Makes the exception that was kept Python's current error; false if there is none. For bindings,
// which raise it themselves instead of the error that the interrupted function returned. With
// Python's lock.
TRIPONT_EXPORT bool RaiseInterrupt();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_INTERRUPT_H_
