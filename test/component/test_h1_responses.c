/* Odd and hostile responses (behaviour rows 16 to 20), each delivered whole, byte by byte and in pieces of every size: the
 * verdict is the same, and the connection is never used again. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/h1_rig.h"

struct row {
    enum wr_err why;   /* WR_OK: CONTENT is what comes */
    const char *bytes; /* then the upstream closes */
    size_t n;          /* of BYTES, when there is a NUL inside */
    const char *content;
};

#define BAD(why, bytes)                              \
    {                                                \
        WR_ERR_##why, bytes, sizeof(bytes) - 1, NULL \
    }
#define GOOD(content, bytes)                     \
    {                                            \
        WR_OK, bytes, sizeof(bytes) - 1, content \
    }
#define S "HTTP/1.1 200 OK\r\n"
#define CHUNKED S "Transfer-Encoding: chunked\r\n\r\n"

/* clang-format off */
static const struct row rows[] = {
    /* row 16: framing */
    BAD(BAD_RESPONSE, S "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, S "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, S "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!"),
    BAD(BAD_RESPONSE, S "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
    BAD(BAD_RESPONSE, S "Content-Length: 2, 2\r\n\r\nok"),
    BAD(BAD_RESPONSE, S "Content-Length: -2\r\n\r\nok"),
    BAD(BAD_RESPONSE, S "Content-Length: 9223372036854775808\r\n\r\nok"),
    BAD(BAD_RESPONSE, S "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, S "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, S "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, CHUNKED "x\r\n"),
    BAD(BAD_RESPONSE, CHUNKED "2 \r\nok\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, CHUNKED "2\nok\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, CHUNKED "2\r\nokk\r\n0\r\n\r\n"),
    BAD(BAD_RESPONSE, CHUNKED "8000000000000000\r\n"),
    BAD(BAD_RESPONSE, CHUNKED "0\r\nX: a\rb\r\n\r\n"),
    /* status lines */
    BAD(BAD_RESPONSE, "\r\n" S "\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 20 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 2000 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 2x0 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 099 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 600 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1  200 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 200\tOK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/2.0 200 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/0.9 200 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 200 O\0K\r\n\r\n"),
    BAD(BAD_RESPONSE, "HTTP/1.1 200 O\rK\r\n\r\n"),
    BAD(BAD_RESPONSE, "http/1.1 200 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "ICY 200 OK\r\n\r\n"),
    BAD(BAD_RESPONSE, "<html>hello</html>\r\n\r\n"),
    BAD(BAD_RESPONSE, "\x15\x03\x01\x00\x02\x02\x50"),
    /* row 17: fields */
    BAD(BAD_RESPONSE, S "X: a\nSet-Cookie: b\r\n\r\n"),
    BAD(BAD_RESPONSE, S "X: a\rSet-Cookie: b\r\n\r\n"),
    BAD(BAD_RESPONSE, S "X: a\0b\r\n\r\n"),
    BAD(BAD_RESPONSE, S "X: a\r\n b\r\n\r\n"),
    BAD(BAD_RESPONSE, S "X : a\r\n\r\n"),
    BAD(BAD_RESPONSE, S "X\r\n\r\n"),
    BAD(BAD_RESPONSE, S ": a\r\n\r\n"),
    BAD(BAD_RESPONSE, S " X: a\r\n\r\n"),
    BAD(UNASKED_UPGRADE, "HTTP/1.1 101 Switching Protocols\r\n\r\n"),
    /* row 20: cut short */
    BAD(UPSTREAM_CLOSED, ""),
    BAD(RESPONSE_INCOMPLETE, "HTTP/1.1 2"),
    BAD(RESPONSE_INCOMPLETE, S "Content-Le"),
    BAD(RESPONSE_INCOMPLETE, "HTTP/1.1 103 Early Hints\r\n\r\n"),
    BAD(RESPONSE_INCOMPLETE, S "Content-Length: 3\r\n\r\nok"),
    BAD(RESPONSE_INCOMPLETE, S "Content-Length: 3\r\n\r\n"),
    BAD(RESPONSE_INCOMPLETE, CHUNKED ""),
    BAD(RESPONSE_INCOMPLETE, CHUNKED "3\r\nok"),
    BAD(RESPONSE_INCOMPLETE, CHUNKED "2\r\nok\r\n"),
    BAD(RESPONSE_INCOMPLETE, CHUNKED "2\r\nok\r\n0\r\n"),
    BAD(RESPONSE_INCOMPLETE, CHUNKED "2\r\nok\r\n0\r\nX: y\r\n"),
    /* and what is in order */
    GOOD("ok", S "Content-Length: 2\r\n\r\nok"),
    GOOD("ok", CHUNKED "1;x\r\no\r\n1\r\nk\r\n0\r\n\r\n"),
    GOOD("ok", S "\r\nok"),
    GOOD("", S "\r\n"),
    GOOD("ok", "HTTP/1.0 200\r\n\r\nok"),
    GOOD("ok", "HTTP/1.1 200 \r\n\r\nok"),
    GOOD("ok", "HTTP/1.7 200 \xe4\t!\r\nX_y: z\r\n\r\nok"),
    GOOD("ok", S "Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok"),
    GOOD("", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
};
/* clang-format on */

static void check(struct rig *rig, const struct row *row, size_t index)
{
    if (row->why == WR_OK) {
        cr_assert(rig->collector.ended, "row %zu: %s", index, row->bytes);
        cr_assert_str_eq(rig->collector.content.p, row->content, "row %zu", index);
        return;
    }
    cr_assert(rig->collector.aborted, "row %zu: %s", index, row->bytes);
    cr_assert_eq(rig->collector.why, row->why, "row %zu: %s\nis %s", index, row->bytes,
                 wr_err_info(rig->collector.why)->label);
    cr_assert_str_eq(rig->events.p, "closed:spent ", "row %zu", index);
}

static void run(const struct row *row, size_t index, size_t piece)
{
    struct rig *rig = rig_new(true);
    rig_start(rig);
    rig_open(rig, "GET", 0, "");
    rig_settle(rig);
    rig_dribble(rig, row->bytes, row->n, piece);
    rig_peer_ends(rig);
    check(rig, row, index);
    rig_finish(rig, WR_OK);
    rig_free(rig);
}

Test(h1_responses, in_pieces_of_every_size, .timeout = 110)
{
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        for (size_t piece = rows[i].n > 0 ? rows[i].n : 1; piece > 0; piece--)
            run(&rows[i], i, piece);
    }
}

static enum wr_err outcome(size_t fields, size_t value)
{
    struct rig *rig = rig_new(true);
    struct text bytes = {0};
    rig_start(rig);
    rig_open(rig, "GET", 0, "");
    rig_settle(rig);
    text_say(&bytes, S "Content-Length: 0\r\n");
    for (size_t i = 1; i < fields; i++) {
        text_say(&bytes, "X: ");
        for (size_t j = 0; j < value; j++)
            text_add(&bytes, "v", 1);
        text_say(&bytes, "\r\n");
    }
    text_say(&bytes, "\r\n");
    rig_say_n(rig, bytes.p, bytes.n);
    enum wr_err why = rig->collector.ended ? WR_OK : rig->collector.why;
    text_free(&bytes);
    rig_finish(rig, WR_OK);
    rig_free(rig);
    return why;
}

Test(h1_responses, heads_are_bounded)
{
    cr_assert_eq(outcome(32, 10), WR_OK);
    cr_assert_eq(outcome(33, 10), WR_ERR_RESPONSE_HEAD_TOO_LARGE);
    cr_assert_eq(outcome(2, 8000), WR_OK);
    cr_assert_eq(outcome(2, 9000), WR_ERR_RESPONSE_HEAD_TOO_LARGE);
    cr_assert_eq(outcome(2, 200000), WR_ERR_RESPONSE_HEAD_TOO_LARGE);
}

/* Behaviour row 24: what may be tried once more. */
Test(h1_responses, unsent_is_said_only_when_no_byte_went_out)
{
    struct rig *rig = rig_new(true);
    rig_start(rig);
    rig_open(rig, "GET", 0, "");
    struct wr_exchange *exchange = rig->exchange;
    rig->client->ops->close(rig->client, WR_ERR_UPSTREAM_CLOSED);
    cr_assert(exchange->request_unsent);
    rig_finish(rig, WR_OK);
    rig_free(rig);

    rig = rig_new(true);
    rig_start(rig);
    rig_open(rig, "GET", 0, "");
    exchange = rig->exchange;
    rig_settle(rig);
    rig_peer_ends(rig);
    cr_assert_eq(rig->collector.why, WR_ERR_UPSTREAM_CLOSED);
    cr_assert_not(exchange->request_unsent);
    rig_finish(rig, WR_OK);
    rig_free(rig);
}
