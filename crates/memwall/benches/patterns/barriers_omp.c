/* Parallel regions so short that most of the time goes to starting and ending them. */
#include <stdlib.h>
int main(int count, char **words) {
    long rounds = count > 1 ? atol(words[1]) : 300000;
    static double values[256];
    for (long round = 0; round < rounds; round++) {
        #pragma omp parallel for schedule(static) num_threads(2)
        for (int i = 0; i < 256; i++) values[i] += 0.5;
    }
    return values[3] == 1.25;
}
