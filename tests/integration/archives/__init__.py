"""Archives as other programs make them, and the tree that each of them must give."""
