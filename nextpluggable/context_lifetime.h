// TensorFlow's eager context, and with it its devices, for as long as the process lives.
//
// A tensor on a NextPluggableDevice gives its memory back through an allocator that belongs to the
// device. When Python ends, it destroys the context and what is left of its objects in any order:
// functions that captured a tensor are in cycles, which are found last. Their tensors would reach
// for an allocator that is gone, and the process would end with a segmentation fault, after all of
// the program's own work. After Python the context cannot be destroyed: the functions that it holds
// keep Python's stack traces.
#ifndef TRIPONT_NEXTPLUGGABLE_CONTEXT_LIFETIME_H_
#define TRIPONT_NEXTPLUGGABLE_CONTEXT_LIFETIME_H_

namespace tensorflow {
class EagerContext;
}

namespace tripont::tensorflow {

// Keeps the context from being destroyed. Any thread; only the first call for a context does
// anything.
void KeepForever(::tensorflow::EagerContext& context);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_CONTEXT_LIFETIME_H_
