/* A thread that writes lines to a descriptor, so that no event loop ever waits for a slow pipe or disk. Producers hand
 * over whole lines; when it is too far behind, they are dropped and counted by the producer. */
#ifndef WR_OBSERVE_WRITER_H
#define WR_OBSERVE_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/err.h"

struct wr_writer;

/* TARGET: "stdout", "stderr" or a path, opened for append. MAX_QUEUED bounds the bytes waiting. Owner: the caller. */
WR_MUST_USE enum wr_err wr_writer_open(const char *target, size_t max_queued,
                                       struct wr_writer **out);

/* Hands over the N bytes of TEXT (whole lines, copied). False: queue full, nothing taken. Any thread. */
bool wr_writer_put(struct wr_writer *writer, const char *text, size_t n);

/* Opens the path again, for log rotation. Any thread. */
void wr_writer_reopen(struct wr_writer *writer);

/* Waits until all that was handed over is written, at most TIMEOUT_USEC, then ends the thread and frees. NULL is fine. */
void wr_writer_close(struct wr_writer *writer, unsigned long timeout_usec);

#endif
