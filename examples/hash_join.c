// Joins orders with customers through a hash table far larger than the caches; four other tables take part and cost
// little. With --small-table only the hot table shrinks: the difference in time is what waiting for it costs.
#include <inttypes.h>
#include "chain.h"
#include "options.h"

enum { NATIONS = 256, REGIONS = 64, ORDERS = 4 << 20, ARCHIVED = 4 << 20, RARELY = 1024 };

struct customer { uint64_t key, nation; }; // key 0: a free slot
struct nation { uint64_t region, rate; };
struct order { uint32_t customer, amount; };
struct customers { struct customer *slots; size_t mask; int shift; };

INLINE void *zeroed(size_t count, size_t bytes_each) {
    return or_die(calloc(count, bytes_each), count * bytes_each);
}

static NOINLINE struct customer *allocate_customers(size_t slots) { return zeroed(slots, sizeof(struct customer)); }
static NOINLINE struct order *allocate_orders(void) { return zeroed(ORDERS, sizeof(struct order)); }
static NOINLINE struct nation *allocate_nations(void) { return zeroed(NATIONS, sizeof(struct nation)); }
static NOINLINE uint64_t *allocate_archive(void) { return zeroed(ARCHIVED, sizeof(uint64_t)); }
static NOINLINE uint64_t *allocate_totals(void) { return zeroed(REGIONS, sizeof(uint64_t)); }

INLINE size_t slot_of(const struct customers *table, uint64_t key) {
    return (key * 0x9e3779b97f4a7c15u) >> table->shift;
}

// Half the slots are taken, by customers 1, 2, 3 and so on.
static NOINLINE void build_customers(struct customers *table) {
    for (uint64_t key = 1; key <= (table->mask + 1) / 2; key++) {
        size_t at = slot_of(table, key);
        while (table->slots[at].key != 0)
            at = (at + 1) & table->mask;
        table->slots[at] = (struct customer){key, key % NATIONS};
    }
}

static NOINLINE void fill_tables(struct order *orders, size_t customers, struct nation *nations, uint64_t *archive) {
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < ORDERS; i++)
        orders[i] = (struct order){(uint32_t)(next_random(&seed) % customers) + 1, (uint32_t)i % 1000};
    for (size_t i = 0; i < NATIONS; i++)
        nations[i] = (struct nation){i % REGIONS, i % 13 + 1};
    for (size_t i = 0; i < ARCHIVED; i++)
        archive[i] = i;
}

static NOINLINE void probe(const struct customers *table, const struct order *orders, const struct nation *nations,
                           const uint64_t *archive, uint64_t *totals) {
    for (size_t i = 0; i < ORDERS; i++) {
        uint64_t key = orders[i].customer;
        size_t at = slot_of(table, key);
        while (table->slots[at].key != key)
            at = (at + 1) & table->mask;
        const struct nation *nation = &nations[table->slots[at].nation];
        totals[nation->region] += orders[i].amount * nation->rate;
        if (i % RARELY == 0)
            totals[0] += archive[key % ARCHIVED];
    }
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    size_t size = 128 << 20;
    bool small = false;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"size", SIZE, &size, "bytes of the hot table, rounded down to a power of two"},
        {"small-table", FLAG, &small, "a hot table of 16K, all else as it was"},
    };
    PARSE_OPTIONS(argc, argv, "hash join; waits on loads from the table of customers", options);
    if (small)
        size = 16 << 10;
    struct customers table = {.mask = 63, .shift = 58};
    for (; (table.mask + 1) * 2 * sizeof(struct customer) <= size; table.shift--)
        table.mask = table.mask * 2 + 1;
    table.slots = allocate_customers(table.mask + 1);
    struct order *orders = allocate_orders();
    struct nation *nations = allocate_nations();
    uint64_t *archive = allocate_archive(), *totals = allocate_totals(), checksum = 0;
    build_customers(&table);
    fill_tables(orders, (table.mask + 1) / 2, nations, archive);
    while (another_round(&pace)) {
        memset(totals, 0, REGIONS * sizeof *totals);
        probe(&table, orders, nations, archive, totals);
    }
    for (size_t i = 0; i < REGIONS; i++)
        checksum = checksum * 31 + totals[i];
    printf("hash_join: checksum %016" PRIx64 "\n", checksum);
    print_pace("hash_join", &pace, ORDERS, "order");
    free(table.slots), free(orders), free(nations), free(archive), free(totals);
}
