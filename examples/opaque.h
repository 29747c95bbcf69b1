// Keeps the optimiser from undoing the point of an example.
#ifndef OPAQUE_H
#define OPAQUE_H

// A function that stays a function of its own, so that a profile can name it. GCC would clone it for a constant
// argument, or make one function of two with the same body.
#if defined(__GNUC__) && !defined(__clang__)
#define NOINLINE __attribute__((noipa))
#else
#define NOINLINE __attribute__((noinline))
#endif

// A function whose caller is the one to name, as it is where the caller is an allocation site.
#define INLINE static inline __attribute__((always_inline))

// The compiler must have VALUE in a register here and knows nothing about it afterwards. No instruction.
#define KEEP(value) __asm__ volatile("" : "+r"(value))

// The compiler must have finished all stores to the memory that POINTER leads to. No instruction.
#define KEEP_MEMORY(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

#endif
