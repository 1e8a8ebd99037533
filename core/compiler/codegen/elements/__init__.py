"""Elements: what one instruction computes for some lanes of its result, in any element type."""
