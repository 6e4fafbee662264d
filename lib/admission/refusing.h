/* What refusing may cost (rule 8 of the README). Every refusal at accept is three system calls, and the kernel's work of a RST: some
 * 12 microseconds, however it is done. At ten times capacity that would be all there is time for, so while handshakes wait for the
 * processor refusing gets a share of the time and no more. What becomes of those for whom there is no time is the owner's choice. */
#ifndef WR_ADMISSION_REFUSING_H
#define WR_ADMISSION_REFUSING_H

#include <stdbool.h>
#include <stdint.h>

/* QUEUE: they wait in the kernel's queue, untold; when that is full the kernel drops attempts to connect. RESET: the kernel refuses them,
 * for the socket is shut meanwhile. Neither costs us anything; the one keeps them waiting, the other refuses without distinction. */
enum wr_overflow { WR_OVERFLOW_QUEUE, WR_OVERFLOW_RESET };

struct wr_refusing {
    uint32_t share; /* per cent of the time, 1 to 100: no limit */
    uint32_t cost;  /* of a refusal: a mean; these two in hundredths of a microsecond */
    int64_t debt;   /* spent beyond the share; below zero: saved up */
    uint64_t turn;  /* of the loop, and the time, of the last one */
    uint64_t last;
};

void wr_refusing_init(struct wr_refusing *refusing, uint32_t share);
/* One was refused in TURN, it is NOW (as it is, not as it was when the turn began). True: the share is used up, so that none
 * should be for *REST microseconds. */
bool wr_refusing_note(struct wr_refusing *refusing, uint64_t turn, uint64_t now, uint64_t *rest);

#endif
