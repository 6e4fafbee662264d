/* Transports on a loop of the test's own, with owners that write down what they are told. */
#ifndef TEST_SUPPORT_TRANSPORT_LAB_H
#define TEST_SUPPORT_TRANSPORT_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

struct lab {
    struct wr_loop *loop;
    struct wr_transport_host *host;
    char dir[64];   /* with cert.pem and key.pem for localhost and 127.0.0.1 */
    bool no_events; /* a callback now would be nested in a call of the owner */
};

/* What an owner does besides writing down. */
enum lab_close_in {
    LAB_CLOSE_NEVER,
    LAB_CLOSE_FIRST_BYTE,
    LAB_CLOSE_HELLO,
    LAB_CLOSE_ESTABLISHED,
    LAB_CLOSE_READABLE,
    LAB_CLOSE_READ_END,
    LAB_CLOSE_WRITABLE,
    LAB_CLOSE_FLUSHED,
    LAB_CLOSE_CLOSED,
};

/* An owner. Set what is wanted before events come; zero is: admit, take everything, close never. */
struct lab_end {
    struct lab *lab;
    struct wr_transport *transport;
    enum wr_gate_verdict verdict;
    enum lab_close_in close_in;
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

extern const struct wr_transport_events lab_events;

void lab_open(struct lab *lab);
void lab_close(struct lab *lab);

/* NAMES NULL: cert.pem and key.pem of the lab. */
struct wr_tls_server *lab_server(struct lab *lab, bool tickets, const char *const *alpn,
                                 size_t alpn_count);
/* Trusts the lab's certificate; SNI NULL: "localhost". */
struct wr_tls_client *lab_client(struct lab *lab, const char *sni, const char *const *alpn,
                                 size_t alpn_count);

/* Two connected non-blocking sockets: loopback TCP, or a unix pair. */
void lab_tcp_pair(int *a, int *b);
void lab_unix_pair(int *a, int *b);

void lab_accept(struct lab *lab, struct lab_end *end, int fd, struct wr_tls_server *tls);
void lab_adopt(struct lab *lab, struct lab_end *end, int fd, struct wr_tls_client *tls);
/* Both ends of a TCP pair, TLS and established. */
void lab_establish(struct lab *lab, struct lab_end *server, struct lab_end *client,
                   struct wr_tls_server *server_tls, struct wr_tls_client *client_tls);
void lab_end_free(struct lab_end *end); /* closes the transport as well */

/* Takes turns until CONDITION holds; the test fails when it does not within ten seconds. */
#define LAB_WAIT(lab, condition)                                \
    do {                                                        \
        uint64_t lab_until = wr_time_monotonic() + 10 * WR_SEC; \
        while (!(condition) && wr_time_monotonic() < lab_until) \
            wr_loop_turn((lab)->loop, 10 * WR_MSEC);            \
        cr_assert(condition, "waited in vain");                 \
    } while (0)

/* Calls of the owner, in which no callback may come. */
#define LAB_CALL(lab, statement)  \
    do {                          \
        (lab)->no_events = true;  \
        statement;                \
        (lab)->no_events = false; \
    } while (0)

/* Takes turns until nothing has happened for a few. */
void lab_settle(struct lab *lab);

/* N bytes that tell their place. Owner: the caller. */
uint8_t *lab_pattern(size_t n);

#endif
