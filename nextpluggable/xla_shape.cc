#include "nextpluggable/xla_shape.h"

#include <algorithm>

namespace tripont::tensorflow {
namespace {

template <typename List>
auto* Elements(List& list) {
  return list.size > TPU_C_API_MAX_INLINED ? list.heap : &list.inlined[0];
}

// Gives `to` room for as many elements as `from` has, and copies them with `copy(from, to)`.
template <typename Element, typename List, typename Copy>
void CopyList(const List& from, List* to, Copy copy) {
  to->size = from.size;
  if (from.size > TPU_C_API_MAX_INLINED) to->heap = new Element[from.size];
  for (int64_t i = 0; i < from.size; ++i) copy(Elements(from)[i], &Elements(*to)[i]);
}

template <typename List>
void CopyValues(const List& from, List* to) {
  using Element = std::remove_cvref_t<decltype(from.inlined[0])>;
  CopyList<Element>(from, to, [](const Element& value, Element* copy) { *copy = value; });
}

template <typename List>
void DestroyList(List* list) {
  if (list->size > TPU_C_API_MAX_INLINED) delete[] list->heap;
  list->size = 0;
}

}  // namespace

void CopyShape(const XLA_Shape& from, XLA_Shape* to) {
  *to = XLA_Shape{};
  to->element_type = from.element_type;
  CopyValues(from.dimensions, &to->dimensions);
  CopyValues(from.dynamic_dimensions, &to->dynamic_dimensions);
  to->ntuple_shapes = from.ntuple_shapes;
  if (from.ntuple_shapes > 0) {
    to->tuple_shapes = new XLA_Shape[from.ntuple_shapes];
    for (int i = 0; i < from.ntuple_shapes; ++i) {
      CopyShape(from.tuple_shapes[i], &to->tuple_shapes[i]);
    }
  }
  to->has_layout = from.has_layout;
  if (!from.has_layout) return;  // TensorFlow leaves the layout uninitialised then
  to->layout = from.layout;      // the numbers; the lists follow
  CopyValues(from.layout.minor_to_major, &to->layout.minor_to_major);
  CopyList<XLA_Tile>(
      from.layout.tiles, &to->layout.tiles,
      [](const XLA_Tile& tile, XLA_Tile* copy) { CopyValues(tile.dimensions, &copy->dimensions); });
}

void DestroyShape(XLA_Shape* shape) {
  for (int i = 0; i < shape->ntuple_shapes; ++i) DestroyShape(&shape->tuple_shapes[i]);
  if (shape->ntuple_shapes > 0) delete[] shape->tuple_shapes;
  DestroyList(&shape->dimensions);
  DestroyList(&shape->dynamic_dimensions);
  if (shape->has_layout) {
    DestroyList(&shape->layout.minor_to_major);
    for (int64_t i = 0; i < shape->layout.tiles.size; ++i) {
      DestroyList(&Elements(shape->layout.tiles)[i].dimensions);
    }
    DestroyList(&shape->layout.tiles);
  }
  *shape = XLA_Shape{};
}

}  // namespace tripont::tensorflow
