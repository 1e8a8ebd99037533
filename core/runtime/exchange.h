// Exchange: one framework's buffer becomes another framework's, without a copy.
//
// All frameworks of the process hold buffers of this one core, each behind a handle of its own
// (PJRT_Buffer). So an exchange is a new handle on a share of the buffer (Buffer::Share). The
// frameworks pass neither handles nor buffers to each other. Three ways lead through them, from the
// inside out:
//
//   capture   buffers whose address a framework asks for on this thread are noted. PJRT has a
//             function for that, and the frameworks offer it to Python (unsafe_buffer_pointer), or
//             their adapter calls it (nextpluggable/eager_tensors.h); knowing the buffer, and not
//             the number alone, the caller can keep it.
//   offer     a framework that makes a buffer of the memory at the offered buffer's address, on
//             this thread, gets a share of that buffer, with its definition event.
//   tickets   a buffer under a number, for libraries between which a number can be passed, but
//             no buffer of this core's.
//
// Captures and offers belong to one thread, and last for one call into a framework; there is one of
// each at a time.
#ifndef TRIPONT_CORE_RUNTIME_EXCHANGE_H_
#define TRIPONT_CORE_RUNTIME_EXCHANGE_H_

#include <cstdint>

#include "core/runtime/buffer.h"
#include "core/runtime/export.h"
#include "core/runtime/memory.h"
#include "core/runtime/ref_counted.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"

namespace tripont::exchange {

// From here on a share is taken of each buffer whose address is asked for on this thread.
TRIPONT_EXPORT void BeginCapture();
// Ends that; the last one, or null.
TRIPONT_EXPORT Ref<Buffer> EndCapture();
// Called with each buffer whose address is asked for.
void Observe(Buffer& buffer);

// Offers `buffer` on this thread.
TRIPONT_EXPORT void Offer(Ref<Buffer> buffer);
// Ends the offer. Whether it was taken; if not, a framework that was handed the address has copied
// what was there, before the content may have been.
TRIPONT_EXPORT bool Withdraw();
// A share of the offered buffer, if it is what a framework asks for: an array of this shape, dense
// at this address, in this memory. Else null.
Ref<Buffer> TakeOffer(const void* data, const Shape& shape, const Memory* memory);

// Keeps the buffer under a number until it is collected. From any thread.
TRIPONT_EXPORT int64_t Deposit(Ref<Buffer> buffer);
// The buffer, whose number is then void. NOT_FOUND for a number that is not a ticket. From any
// thread.
TRIPONT_EXPORT StatusOr<Ref<Buffer>> Collect(int64_t ticket);

}  // namespace tripont::exchange

#endif  // TRIPONT_CORE_RUNTIME_EXCHANGE_H_
