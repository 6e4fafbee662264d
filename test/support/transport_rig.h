/* Transports on a loop of the test's own, with owners that write down what they are told. */
#ifndef TEST_SUPPORT_TRANSPORT_RIG_H
#define TEST_SUPPORT_TRANSPORT_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

struct rig {
    struct wr_loop *loop;
    struct wr_transport_host *host;
    char dir[64];   /* with cert.pem and key.pem for localhost and 127.0.0.1 */
    bool no_events; /* a callback now would be nested in a call of the owner */
};

/* What an owner does besides writing down. */
enum rig_close_in {
    RIG_CLOSE_NEVER,
    RIG_CLOSE_FIRST_BYTE,
    RIG_CLOSE_HELLO,
    RIG_CLOSE_ESTABLISHED,
    RIG_CLOSE_READABLE,
    RIG_CLOSE_READ_END,
    RIG_CLOSE_WRITABLE,
    RIG_CLOSE_FLUSHED,
    RIG_CLOSE_CLOSED,
};

/* An owner. Set what is wanted before events come; zero is: admit, take everything, close never. */
struct rig_end {
    struct rig *rig;
    struct wr_transport *transport;
    enum wr_gate_verdict verdict;
    enum rig_close_in close_in;
    int refuse_in_hello; /* enum wr_refuse_with + 1, or 0 */
    bool echo;           /* writes back what it gets */
    size_t take;         /* takes at most that many a call and pauses then; 0: all */

    unsigned first_bytes, hellos, established, readable_calls, read_ends, writables, flushes,
        closes;
    bool clean;
    bool claims_resumption;
    char sni[512];
    char alpn[64];
    size_t alpn_length;
    enum wr_err why;
    char detail[128];
    uint8_t *got;
    size_t got_length;
};

extern const struct wr_transport_events rig_events;

void rig_open(struct rig *rig);
void rig_close(struct rig *rig);

/* NAMES NULL: cert.pem and key.pem of the rig. */
struct wr_tls_server *rig_server(struct rig *rig, bool tickets, const char *const *alpn,
                                 size_t alpn_count);
/* Trusts the rig's certificate; SNI NULL: "localhost". */
struct wr_tls_client *rig_client(struct rig *rig, const char *sni, const char *const *alpn,
                                 size_t alpn_count);

/* Two connected non-blocking sockets: loopback TCP, or a unix pair. */
void rig_tcp_pair(int *a, int *b);
void rig_unix_pair(int *a, int *b);

void rig_accept(struct rig *rig, struct rig_end *end, int fd, struct wr_tls_server *tls);
void rig_adopt(struct rig *rig, struct rig_end *end, int fd, struct wr_tls_client *tls);
/* Both ends of a TCP pair, TLS and established. */
void rig_establish(struct rig *rig, struct rig_end *server, struct rig_end *client,
                   struct wr_tls_server *server_tls, struct wr_tls_client *client_tls);
void rig_end_free(struct rig_end *end); /* closes the transport as well */

/* Takes turns until CONDITION holds; the test fails when it does not within ten seconds. */
#define RIG_WAIT(rig, condition)                                \
    do {                                                        \
        uint64_t rig_until = wr_time_monotonic() + 10 * WR_SEC; \
        while (!(condition) && wr_time_monotonic() < rig_until) \
            wr_loop_turn((rig)->loop, 10 * WR_MSEC);            \
        cr_assert(condition, "waited in vain");                 \
    } while (0)

/* Calls of the owner, in which no callback may come. */
#define RIG_CALL(rig, statement)  \
    do {                          \
        (rig)->no_events = true;  \
        statement;                \
        (rig)->no_events = false; \
    } while (0)

/* Takes turns until nothing has happened for a few. */
void rig_settle(struct rig *rig);

/* N bytes that tell their place. Owner: the caller. */
uint8_t *rig_pattern(size_t n);

#endif
