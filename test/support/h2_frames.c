#include "support/h2_frames.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct h2_peer *h2_peer_connect(int port, bool tls)
{
    static const struct peer_tls by_alpn = {.alpn = "\x02h2"};
    struct h2_peer *h2 = calloc(1, sizeof(*h2));

    h2->peer = tls ? peer_connect_tls(port, &by_alpn) : peer_connect(port);
    cr_assert_not_null(h2->peer, "no connection to weir");
    if (tls) {
        unsigned n;
        const char *alpn = peer_alpn(h2->peer, &n);
        cr_assert(n == 2 && memcmp(alpn, "h2", 2) == 0, "HTTP/2 is not offered");
    }
    h2->reader = h2_reader_new(false);
    return h2;
}

struct h2_peer *h2_peer_open(int port, bool tls, const uint32_t *settings)
{
    static const uint32_t nothing[] = {0};
    struct h2_peer *h2 = h2_peer_connect(port, tls);

    text_say(&h2->out, "%s", H2_PREFACE);
    h2_put_settings(&h2->out, settings ? settings : nothing);
    cr_assert(h2_peer_hears(h2, "SETTINGS["), "no SETTINGS: %s", h2_peer_log(h2));
    h2_put_frame(&h2->out, H2_SETTINGS, H2_ACK, 0, "", 0);
    cr_assert(h2_peer_hears(h2, "SETTINGS+ACK["), "no acknowledgement: %s", h2_peer_log(h2));
    return h2;
}

void h2_peer_free(struct h2_peer *h2)
{
    peer_free(h2->peer);
    h2_reader_free(h2->reader);
    text_free(&h2->out);
    text_free(&h2->log);
    free(h2);
}

const char *h2_peer_log(const struct h2_peer *h2)
{
    return h2->log.p ? h2->log.p : "";
}

void h2_peer_send(struct h2_peer *h2)
{
    (void)peer_write(h2->peer, h2->out.p, h2->out.n);
    text_free(&h2->out);
}

/* False at the end. */
static bool read_some(struct h2_peer *h2)
{
    char bytes[16384];
    size_t n = h2->end == PEER_OPEN ? peer_read(h2->peer, bytes, sizeof(bytes), &h2->end) : 0;

    h2_reader_read(h2->reader, bytes, n, &h2->log);
    return n > 0;
}

bool h2_peer_hears(struct h2_peer *h2, const char *text)
{
    h2_peer_send(h2);
    while (!strstr(h2_peer_log(h2), text)) {
        if (!read_some(h2))
            return false;
    }
    return true;
}

bool h2_peer_reads(struct h2_peer *h2)
{
    h2_peer_send(h2);
    return read_some(h2);
}

bool h2_peer_settles(struct h2_peer *h2)
{
    static unsigned count;
    char opaque[16];
    char answer[32];

    (void)snprintf(opaque, sizeof(opaque), "ask%05u", ++count % 100000);
    (void)snprintf(answer, sizeof(answer), "PING+ACK[%s] ", opaque);
    h2_put_ping(&h2->out, 0, opaque);
    return h2_peer_hears(h2, answer);
}

bool h2_peer_is_over(struct h2_peer *h2, unsigned code)
{
    char words[32];
    const char *last = NULL;

    h2_peer_send(h2);
    while (read_some(h2))
        continue;
    for (const char *at = h2_peer_log(h2); (at = strstr(at, "GOAWAY[")) != NULL; at++)
        last = at;
    (void)snprintf(words, sizeof(words), ",%u] ", code);
    const char *end = last ? strstr(last, words) : NULL;
    return end && end[strlen(words)] == '\0' && !memchr(last, ' ', (size_t)(end - last)) &&
           h2->end == PEER_EOF;
}

void h2_peer_ask(struct h2_peer *h2, uint32_t id, unsigned flags, const char *method,
                 const char *path, const char *more)
{
    struct text fields = {0};

    text_say(&fields, ":method: %s\n:scheme: https\n:path: %s\n:authority: localhost\n%s", method,
             path, more);
    h2_put_headers(&h2->out, id, flags, fields.p);
    text_free(&fields);
}

void h2_peer_get(struct h2_peer *h2, uint32_t id, const char *path)
{
    h2_peer_ask(h2, id, H2_END_STREAM, "GET", path, "");
}
