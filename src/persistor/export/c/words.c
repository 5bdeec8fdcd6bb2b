/* Reads PCM from standard input (16 kHz, 16 bits, low byte first, one channel). Every quarter of a
   second it prints the time, the likeliest class of the last NAME_CLIP samples and its probability.

     sox some.wav -t raw -r 16000 -e signed -b 16 -c 1 - | ./words
     arecord -f S16_LE -r 16000 -c 1 | ./words */

#include <math.h>
#include <stdio.h>

#include "NAME.h"

enum { EVERY = 4000 };

static void print(const NAME_ear *ear, long heard)
{
    float output[NAME_OUTPUTS], sum = 0.0f;
    int best = 0;
    NAME_hear_answer(ear, output);
    for (int i = 1; i < NAME_OUTPUTS; i++)
        if (output[i] > output[best])
            best = i;
    for (int i = 0; i < NAME_OUTPUTS; i++)
        sum += expf(output[i] - output[best]);
    printf("%.2f s  %s %.3f\n", (double)heard / 16000.0, NAME_classes[best], (double)(1.0f / sum));
    fflush(stdout);
}

int main(void)
{
    static NAME_ear ear;
    unsigned char bytes[2 * EVERY];
    int16_t samples[EVERY];
    long heard = 0;
    NAME_hear_init(&ear);
    for (;;) {
        const int number = (int)(fread(bytes, 2, EVERY, stdin));
        if (number == 0)
            return 0;
        for (int i = 0; i < number; i++) {
            const int value = bytes[2 * i] + 256 * bytes[2 * i + 1];
            samples[i] = (int16_t)(value < 32768 ? value : value - 65536);
        }
        NAME_hear(&ear, samples, number);
        heard += number;
        print(&ear, heard);
    }
}
