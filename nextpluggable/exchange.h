// Two ops that carry tensors of XPU out of TensorFlow and into it, without a copy.
//
//   TripontExport(x: T)                        x's buffer is captured, on the thread that runs this
//   TripontImport(ticket: int64) -> y: T       a tensor on that buffer; the number is then void
//
// core/runtime/exchange.h explains captures and tickets. tripont.interop runs the ops, eagerly: in
// TensorFlow's synchronous mode that is on the caller's thread. The export has no output: a number
// of eight bytes, in host memory, cost an allocation on the device and three times the rest of the
// exchange. The device of the ops is the one that the buffer is on. TensorFlow has its int32
// tensors in host memory on every device: they are not exported, and imported as what they must be,
// a view of memory that the host sees.
#ifndef TRIPONT_NEXTPLUGGABLE_EXCHANGE_H_
#define TRIPONT_NEXTPLUGGABLE_EXCHANGE_H_

namespace tripont::tensorflow {

// Registers the ops and their kernels.
void RegisterExchange();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_EXCHANGE_H_
