// Ranks of an MPI program: each works on lines of its own, then all add up where they ended. Built where there is MPI.
#include <inttypes.h>
#include <mpi.h>
#include "work.h"

int main(int argc, char **argv) {
    struct pace pace = {.rounds = 40};
    const struct option options[] = {PACE_OPTIONS(pace)};
    MPI_Init(&argc, &argv);
    PARSE_OPTIONS(argc, argv, "ranks that work and meet", options);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct line *lines = allocate_work();
    uint64_t sum = 0;
    while (another_round(&pace)) {
        uint64_t mine = (uint64_t)(work_step(lines) - lines) + (uint64_t)rank, all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
    }
    if (rank == 0)
        printf("ranks: %d of them, sum %" PRIu64 "\n", ranks, sum);
    free(lines);
    MPI_Finalize();
}
