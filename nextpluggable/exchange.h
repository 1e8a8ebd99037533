// Two ops that carry tensors of XPU out of TensorFlow and into it, without a copy.
//
//   TripontExport(x: T) -> ticket: int64       a share of x's buffer, under a number
//   TripontImport(ticket: int64) -> y: T       a tensor on that buffer; the number is then void
//
// tripont.interop runs them, eagerly; pjrt/exchange.h keeps the tickets. The device of the ops is
// the one that the buffer is on. TensorFlow has its int32 tensors in host memory on every device:
// they are not exported, and imported as what they must be, a view of memory that the host sees.
#ifndef TRIPONT_NEXTPLUGGABLE_EXCHANGE_H_
#define TRIPONT_NEXTPLUGGABLE_EXCHANGE_H_

namespace tripont::tensorflow {

// Registers the ops and their kernels.
void RegisterExchange();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_EXCHANGE_H_
