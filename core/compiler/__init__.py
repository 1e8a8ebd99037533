"""The compiler: program bytes in, executable artifact bytes out."""
