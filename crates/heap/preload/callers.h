/* Who asked for a block: words of the stack that could be return addresses into the program. The reader checks them. */
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static uintptr_t program_low, program_high;
static uint32_t program_middle, program_mask; /* bits 16 to 47 of its addresses: which of them all share, and what these are */
extern void *__libc_stack_end __attribute__((weak));

/* Where the program's code lies. Without locks: anybody may allocate anywhere. */
static __attribute__((noinline, cold)) void find_program(void) {
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    unsigned long count = parts == NULL ? 0 : getauxval(AT_PHNUM);
    uintptr_t bias = 0, low = 0, high = 0;
    for (unsigned long index = 0; index < count; index++) {
        if (parts[index].p_type == PT_PHDR) bias = (uintptr_t)parts - parts[index].p_vaddr;
        if (parts[index].p_type == PT_LOAD && (parts[index].p_flags & PF_X))
            low = parts[index].p_vaddr, high = low + parts[index].p_memsz;
    }
    low += bias, high += bias;
    uint64_t differing = (low ^ (high - 1)) >> 16;
    program_mask = differing == 0 ? ~0u : (uint32_t)(~(uint64_t)0 << (64 - __builtin_clzll(differing)));
    program_middle = (uint32_t)(low >> 16) & program_mask;
    program_low = low;
    program_high = high;
}

/* Up to where the stack can be read that `frame` lies on. All of it if the kernel gave it to this thread, or where it is so near
 * the end of a thread's that it can be no other: no thread has less. Else the program may have made a stack of its own, and
 * what lies behind the page is not known. */
static uintptr_t readable_end(uintptr_t frame) {
    enum { MOST_STACK = 8 << 20, LEAST_STACK = 8 << 10 };
    bool is_kernels = is_first_thread && &__libc_stack_end != NULL;
    uintptr_t end = is_kernels ? (uintptr_t)__libc_stack_end : (uintptr_t)&inside;
    if (end <= frame || end - frame >= MOST_STACK) return frame;
    if (is_kernels || end - frame < LEAST_STACK) return end;
    return (frame | (PAGE - 1)) + 1;
}

enum { WORDS = 96, AT_ONCE = 16 };

#ifdef __SSE2__
/* Which of four words agree with addresses of the program, in the bits that all of these share. */
static inline __m128i agreeing(const uintptr_t *words) {
    const char *bytes = (const char *)words + 2;
    __m128 two = _mm_loadu_ps((const float *)bytes), more = _mm_loadu_ps((const float *)(bytes + 16));
    __m128i middles = _mm_castps_si128(_mm_shuffle_ps(two, more, _MM_SHUFFLE(2, 0, 2, 0)));
    return _mm_cmpeq_epi32(_mm_and_si128(middles, _mm_set1_epi32((int)program_mask)), _mm_set1_epi32((int)program_middle));
}

/* Which of so many words may be addresses of the program, a bit each. Looks at the beginning of the next one too. */
static inline unsigned candidates(const uintptr_t *words) {
    __m128i eight = _mm_packs_epi32(agreeing(words), agreeing(words + 4));
    __m128i more = _mm_packs_epi32(agreeing(words + 8), agreeing(words + 12));
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(eight, more));
}
#else
static inline unsigned candidates(const uintptr_t *words) { return (void)words, (1u << AT_ONCE) - 1; }
#endif

/* What was found behind a call, and how many words above its frame. */
struct finding {
    uintptr_t caller, frame;
    uint64_t behind[CALLERS - 1];
    uint16_t places[CALLERS - 1];
    uint16_t count;
};

static __attribute__((noinline)) void search(struct finding *to, uintptr_t caller, uintptr_t frame) {
    enum { OWN = 2 }; /* the frame begins with what we saved and where we return to */
    *to = (struct finding){.caller = caller, .frame = frame};
    uintptr_t low = program_low, bytes = program_high - low, words = (readable_end(frame) - frame) / sizeof(uintptr_t);
    if (words <= OWN) return;
    words -= OWN + 1; /* the last of the stack is none */
    const uintptr_t *word = (const uintptr_t *)frame + OWN, *end = word + (words < WORDS ? words : WORDS);
    for (; word < end; word += AT_ONCE) {
        unsigned left = end - word < AT_ONCE ? (1u << (end - word)) - 1 : candidates(word);
        for (; left != 0; left &= left - 1) {
            const uintptr_t *at = &word[__builtin_ctz(left)];
            if (*at - low >= bytes || *at == caller) continue;
            to->behind[to->count] = *at;
            to->places[to->count] = (uint16_t)(at - (const uintptr_t *)frame);
            if (++to->count == CALLERS - 1) return;
        }
    }
}

/* Calls of one place mostly come from the same ones again: then it is enough to see that what was found still stands there. A caller
 * that came between them meanwhile, with all else in its place, is overlooked. */
enum { FINDINGS_LOG2 = 3 };
PER_THREAD struct finding findings[1 << FINDINGS_LOG2];

static inline const uint64_t *find_callers(uintptr_t caller, uintptr_t frame) {
    struct finding *found = &findings[(uint32_t)caller * 0x9e3779b1u >> (32 - FINDINGS_LOG2)];
    __asm__("" : "+r"(found)); /* or it is looked for anew with each use */
    bool stands = found->caller == caller && found->frame == frame;
    const uintptr_t *words = (const uintptr_t *)frame;
    for (unsigned index = 0; stands && index < found->count; index++)
        stands = words[found->places[index]] == found->behind[index];
    if (!stands) search(found, caller, frame);
    return found->behind;
}
