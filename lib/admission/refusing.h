/* What refusing may cost (rule 8 of the README). Every refusal at accept is three system calls, and the kernel's work of a RST: some
 * 12 microseconds, however it is done. At ten times capacity that would be all there is time for, so while handshakes wait for the
 * processor refusing gets a share of the time and no more. Who is not told yet waits in the kernel's queue, which is short, and
 * when that is full the kernel drops attempts to connect, at no cost to us. */
#ifndef WR_ADMISSION_REFUSING_H
#define WR_ADMISSION_REFUSING_H

#include <stdbool.h>
#include <stdint.h>

struct wr_refusing {
    uint32_t share;  /* per cent of the time, 1 to 100: no limit */
    uint32_t count;  /* refused since BEFORE */
    uint64_t turn;   /* of the loop, in which BEFORE was taken */
    uint64_t before; /* microseconds that the turn had taken */
};

void wr_refusing_init(struct wr_refusing *refusing, uint32_t share);
/* One was refused in TURN, which has taken SPENT microseconds so far. True: so many were that accepting should rest for *REST
 * microseconds. */
bool wr_refusing_note(struct wr_refusing *refusing, uint64_t turn, uint64_t spent, uint64_t *rest);

#endif
