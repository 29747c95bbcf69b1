// Writes a buffer far larger than any cache, over and over: waits on stores.
#include <inttypes.h>
#include "options.h"

static NOINLINE uint64_t *allocate_buffer(size_t bytes) {
    uint64_t *buffer = or_die(lines_of(bytes), bytes);
    memset(buffer, 1, bytes); // so that no page is touched first while the clock runs
    return buffer;
}

static NOINLINE void write_buffer(uint64_t *buffer, size_t words, size_t stride) {
    for (size_t i = 0; i < words; i += stride)
        buffer[i] = i;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    size_t size = 256 << 20, stride = 64;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"size", SIZE, &size, "bytes of the buffer"},
        {"stride", SIZE, &stride, "bytes from one store to the next, a multiple of 8"},
    };
    PARSE_OPTIONS(argc, argv, "writes a large buffer; waits on stores", options);
    if (stride % 8 != 0) {
        fprintf(stderr, "--stride: a multiple of 8, not %zu\n", stride);
        return 2;
    }
    size_t words = size / sizeof(uint64_t), step = stride / sizeof(uint64_t);
    uint64_t *buffer = allocate_buffer(words * sizeof *buffer), sum = 0;
    while (another_round(&pace)) {
        write_buffer(buffer, words, step);
        KEEP_MEMORY(buffer);
    }
    for (size_t i = 0; i < words; i += 1009)
        sum += buffer[i];
    printf("store_stream: checksum %016" PRIx64 "\n", sum);
    print_pace("store_stream", &pace, (double)((words + step - 1) / step), "store");
    free(buffer);
}
