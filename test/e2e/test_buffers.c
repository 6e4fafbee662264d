/* `buffer_shrink_after`: what slow readers made a worker hold goes back to the system when nobody needs it any more. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/weir.h"

#define READERS 64
#define LEAST_HELD  \
    (READERS * 64 * \
     1024) /* bytes of content a reader that does not read leaves with us, at least */
#define GET "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define WAIT_MS (30000 * weir_slowness())

static struct weir *start(const char *shrink_after)
{
    return weir_start("workers: 1\n"
                      "admin: 127.0.0.1:0\n"
                      "buffer_shrink_after: %s\n"
                      "listeners:\n"
                      "  - name: edge\n"
                      "    bind: 127.0.0.1:0\n"
                      "    routes: [{respond: {body_size: 64MiB}}]\n",
                      shrink_after);
}

/* Gauges of buffers are taken once a second. */
static bool at_least(const struct weir *weir, const char *sample, double value)
{
    for (int waited = 0; waited < WAIT_MS; waited += 100) {
        if (weir_metric(weir, sample) >= value)
            return true;
        usleep(100 * 1000);
    }
    return false;
}

/* Readers that stop after the head come, and go; waits until all they made weir hold has been let go. */
static void hold_and_let_go(struct weir *weir)
{
    struct peer *readers[READERS];
    char head[4096];

    for (size_t i = 0; i < READERS; i++) {
        readers[i] = peer_connect(weir_port(weir, "edge"));
        cr_assert_not_null(readers[i]);
        peer_set_wait(readers[i], WAIT_MS);
        cr_assert(peer_write(readers[i], GET, strlen(GET)));
    }
    for (size_t i = 0; i < READERS; i++)
        cr_assert(peer_read_head(readers[i], head, sizeof(head)));
    cr_assert(at_least(weir, "weir_buffer_bytes", LEAST_HELD));
    for (size_t i = 0; i < READERS; i++)
        peer_free(readers[i]);
    cr_assert(weir_metric_becomes(weir, "weir_requests_active", 0, WAIT_MS));
    cr_assert(weir_metric_becomes(weir, "weir_buffer_bytes", 0, WAIT_MS));
}

Test(buffers, go_back_after_a_while)
{
    struct weir *weir = start("1s");

    hold_and_let_go(weir);
    cr_assert(at_least(weir, "weir_buffer_released_bytes_total", LEAST_HELD));
    cr_assert(weir_metric_becomes(weir, "weir_buffer_free_bytes", 0, WAIT_MS));
    weir_stop(weir);
}

Test(buffers, are_kept_for_ever_when_told)
{
    struct weir *weir = start("infinity");

    hold_and_let_go(weir);
    cr_assert(at_least(weir, "weir_buffer_free_bytes", LEAST_HELD));
    hold_and_let_go(weir);
    cr_assert_eq(weir_metric(weir, "weir_buffer_released_bytes_total"), 0);
    weir_stop(weir);
}

Test(buffers, go_back_at_once_when_told)
{
    struct weir *weir = start("0s");

    hold_and_let_go(weir);
    cr_assert_eq(weir_metric(weir, "weir_buffer_free_bytes"), 0);
    cr_assert_eq(weir_metric(weir, "weir_buffer_released_bytes_total"), 0);
    weir_stop(weir);
}
