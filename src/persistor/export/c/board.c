/* Runs the test vectors on a Cortex-M without an operating system, and prints by semihosting: the
   bits of every output, ticks of the board's timer, bytes of stack. In QEMU with -icount the timer
   counts instructions: an instruction takes 64 ns there and a tick 40 ns. */

#include "NAME.h"
#include "vectors.h"

int main(void);
void reset(void);
extern uint32_t stack_top[], stack_bottom[], data_source[], data_begin[], data_end[], bss_end[];

#define TIMER ((volatile uint32_t *)0x40000000)
#define FRESH 0xa5a5a5a5u

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {stack_top, reset};

static void semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void say(const char *label, uint32_t number)
{
    char line[10];
    for (int i = 0; i < 8; i++)
        line[i] = "0123456789abcdef"[(number >> (28 - 4 * i)) & 15u];
    line[8] = '\n';
    line[9] = 0;
    semihosting(4, label);
    semihosting(4, " ");
    semihosting(4, line);
}

static void say_numbers(const char *label, const float *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        union {
            float number;
            uint32_t bits;
        } as;
        as.number = numbers[i];
        say(label, as.bits);
    }
}

static void paint(void)
{
    uint32_t here;
    for (uint32_t *word = stack_bottom; word < &here - 64; word++)
        *(volatile uint32_t *)word = FRESH;
}

static uint32_t stack_used(void)
{
    uint32_t here;
    const uint32_t *word = stack_bottom;
    while (*word == FRESH)
        word++;
    return (uint32_t)(&here - word) * 4u;
}

static void run_vectors(void)
{
    static NAME_state state;
    const float *input = vector_inputs;
    uint32_t stepping = 0, answering = 0;
    for (int i = 0; i < VECTORS; i++) {
        float output[NAME_OUTPUTS];
        NAME_init(&state);
        const uint32_t begin = TIMER[1];
        for (int t = 0; t < vector_steps[i]; t++, input += NAME_INPUTS)
            NAME_step(input, &state);
        const uint32_t middle = TIMER[1];
        NAME_answer(&state, output);
        stepping += begin - middle;
        answering += middle - TIMER[1];
        say_numbers("output", output, NAME_OUTPUTS);
    }
    say("step", stepping);
    say("answer", answering);
}

#ifdef NAME_CLIP
static void run_sounds(void)
{
    static NAME_ear ear;
    const int16_t *samples = vector_samples;
    uint32_t hearing = 0;
    for (int i = 0; i < SOUNDS; i++) {
        float output[NAME_OUTPUTS];
        NAME_hear_init(&ear);
        const uint32_t begin = TIMER[1];
        NAME_hear(&ear, samples, vector_sizes[i]);
        NAME_hear_answer(&ear, output);
        hearing += begin - TIMER[1];
        say_numbers("heard", output, NAME_OUTPUTS);
        samples += vector_sizes[i];
    }
    say("hear", hearing);
}
#endif

int main(void)
{
    TIMER[2] = 0xffffffffu;
    TIMER[1] = 0xffffffffu;
    TIMER[0] = 1;
    paint();
    run_vectors();
    say("stack", stack_used());
#ifdef NAME_CLIP
    run_sounds();
    say("stack_hearing", stack_used());
#endif
    return 0;
}

void reset(void)
{
#ifdef __ARM_FP
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* let the floating-point unit in */
    __asm__ volatile("dsb\n isb");
#endif
    const uint32_t *source = data_source;
    uint32_t *word = data_begin;
    for (; word < data_end; word++)
        *word = *source++;
    for (; word < bss_end; word++)
        *word = 0;
    main();
    semihosting(0x18, (const void *)0x20026); /* the program ends well */
    for (;;) {
    }
}
