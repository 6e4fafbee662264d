/* Random writes, pauses, partial takes and flushes in both directions over small send buffers: nothing is lost, reordered or
 * stalled, whatever the seed. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

#define EACH_WAY ((size_t)700000)

static struct lab lab;
static uint8_t *pattern;
static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static void set_up(void)
{
    lab_open(&lab);
    pattern = lab_pattern(EACH_WAY);
}

static void tear_down(void)
{
    free(pattern);
    lab_close(&lab);
}

TestSuite(transport_random, .init = set_up, .fini = tear_down, .timeout = 100);

static void shrink_buffer(int fd)
{
    int size = 4096;
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
}

/* One thing that an owner may do. */
static void act(struct lab_end *end, size_t *written)
{
    struct wr_transport *transport = end->transport;
    size_t n = 1 + below(below(4) == 0 ? 60000 : 500);
    lab.no_events = true;
    switch (below(6)) {
    case 0:
    case 1:
        n = n < EACH_WAY - *written ? n : EACH_WAY - *written;
        n = n < wr_transport_output_room(transport) ? n : wr_transport_output_room(transport);
        wr_transport_write(transport, pattern + *written, n);
        *written += n;
        if (*written == EACH_WAY)
            wr_transport_end(transport);
        break;
    case 2:
        wr_transport_pause(transport, 1u << below(3));
        break;
    case 3:
        wr_transport_flush(transport);
        break;
    case 4:
        end->take = below(3) == 0 ? 0 : n;
        break;
    default:
        wr_transport_resume(transport, WR_PAUSE_BUSY | WR_PAUSE_FULL | WR_PAUSE_OWNER);
        break;
    }
    lab.no_events = false;
}

static void check(struct lab_end *end)
{
    cr_assert_leq(end->got_length, EACH_WAY);
    cr_assert_eq(end->closes, 0, "%d %s", end->why, end->detail);
    if (end->read_ends > 0)
        cr_assert(end->got_length == EACH_WAY && end->clean);
}

static void run(bool tls, bool tcp, uint64_t with_seed)
{
    struct wr_tls_server *server_tls = tls ? lab_server(&lab, true, NULL, 0) : NULL;
    struct wr_tls_client *client_tls = tls ? lab_client(&lab, NULL, NULL, 0) : NULL;
    struct lab_end ends[2] = {{0}, {0}};
    size_t written[2] = {0, 0};
    int a;
    int b;
    seed = with_seed;
    (tcp ? lab_tcp_pair : lab_unix_pair)(&a, &b);
    shrink_buffer(a);
    shrink_buffer(b);
    lab_accept(&lab, &ends[0], a, server_tls);
    lab_adopt(&lab, &ends[1], b, client_tls);
    uint64_t until = wr_time_monotonic() + 60 * WR_SEC;
    while (ends[0].read_ends + ends[1].read_ends < 2 && wr_time_monotonic() < until) {
        for (unsigned i = below(4); i > 0; i--) {
            unsigned side = below(2);
            act(&ends[side], &written[side]);
        }
        wr_loop_turn(lab.loop, below(3) == 0 ? 100 : 0);
        check(&ends[0]);
        check(&ends[1]);
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(ends[i].read_ends, 1, "stalled with seed %lu", (unsigned long)with_seed);
        cr_assert(memcmp(ends[i].got, pattern, EACH_WAY) == 0);
        LAB_WAIT(&lab, ends[i].flushes == 1);
        cr_assert_null(ends[i].transport->pipeline);
    }
    lab_end_free(&ends[0]);
    lab_end_free(&ends[1]);
    wr_tls_server_release(server_tls);
    wr_tls_client_release(client_tls);
    wr_loop_turn(lab.loop, 0);
}

Test(transport_random, plain)
{
    for (uint64_t i = 0; i < 6; i++)
        run(false, i % 2 == 0, i);
}

Test(transport_random, tls)
{
    for (uint64_t i = 0; i < 6; i++)
        run(true, i % 2 == 0, i + 100);
}
