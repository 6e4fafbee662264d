/* Odd and hostile requests (behaviour rows 1 to 15, 26, 53, 57), each delivered whole, byte by byte, and cut in two at every
 * place: the verdict is the same. After a refusal nothing is parsed any more and the connection closes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/h1_rig.h"

#define H "Host: a\r\n"
#define AFTER "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

struct row {
    const char *bytes;
    unsigned status;    /* 200: served */
    const char *served; /* the note of h1_rig.h, for 200 */
    size_t n;           /* of BYTES, when there is a NUL inside */
};

#define BAD(status, bytes)                     \
    {                                          \
        bytes, status, NULL, sizeof(bytes) - 1 \
    }
#define GOOD(served, bytes)                   \
    {                                         \
        bytes, 200, served, sizeof(bytes) - 1 \
    }

/* clang-format off */
static const struct row rows[] = {
    /* row 1: Content-Length and Transfer-Encoding */
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    /* row 2: several lengths */
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 5\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\nhello"),
    /* row 3: odd lengths */
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: -5\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 1_0\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 5 5\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 9223372036854775808\r\n\r\nhello"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551621\r\n\r\nhello"),
    GOOD("POST a / [hello] \n", "POST / HTTP/1.1\r\n" H "Content-Length: 5 \r\n\r\nhello"),
    GOOD("POST a / [hello] \n", "POST / HTTP/1.1\r\n" H "Content-Length: 005\r\n\r\nhello"),
    GOOD("POST a / [] \n", "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n"),
    /* row 4: transfer codings */
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked \r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0b" "chunked\r\n\r\n0\r\n\r\n"),
    BAD(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, cow\r\n\r\n0\r\n\r\n"),
    BAD(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    BAD(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
    BAD(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    BAD(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    GOOD("POST a / [] \n", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n"),
    GOOD("POST a / [] \n", "POST / HTTP/1.1\r\n" H "Transfer-Encoding:chunked\r\n\r\n0\r\n\r\n"),
    GOOD("POST a / [hello] transfer-encodin=chunked;\n", "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encodin: chunked\r\n\r\nhello"),
    /* row 5: line ends */
    BAD(400, "GET / HTTP/1.1\n" H "\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\r\n\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\r\rX: y\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\rTransfer-Encoding: chunked\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r" H "\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X: a\rb\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X: \x01\r\n\r\n"),
    GOOD("GET a / [] x=\xe4\tb;\n", "GET / HTTP/1.1\r\n" H "X: \xe4\tb\r\n\r\n"),
    GOOD("GET a / [] x=;\n", "GET / HTTP/1.1\r\n" H "X:\r\n\r\n"),
    GOOD("GET a / [] x=;\n", "GET / HTTP/1.1\r\n" H "X: \t \r\n\r\n"),
    /* row 6: chunks */
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\r0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\n\r\n"),
    GOOD("POST a / [abc] \n", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0001\r\na\r\n00000000000000000002\r\nbc\r\n000\r\n\r\n"),
    GOOD("POST a / [abcdefghijk] \n", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nB\r\nabcdefghijk\r\n0\r\n\r\n"),
    /* row 7: extensions */
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\na\r\n0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;\0\r\na\r\n0\r\n\r\n"),
    GOOD("POST a / [a] \n", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;a=\"b;c\";d\r\na\r\n0;last\r\n\r\n"),
    /* row 8: folded lines */
    BAD(400, "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n " H "\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X:\r\n \r\n\r\n"),
    /* row 9: names */
    BAD(400, "GET / HTTP/1.1\r\n" H "X : a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X\t: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X y: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H ": a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X(): a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X\xe4: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H "X\0: a\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Content-Length : 5\r\n\r\nhello"),
    GOOD("GET a / [] !#$%&'*+-.^`|~9=x;\n", "GET / HTTP/1.1\r\n" H "!#$%&'*+-.^`|~9: x\r\n\r\n"),
    GOOD("GET a / [] \n", "GET / HTTP/1.1\r\n" H "X_Forwarded_For: x\r\n\r\n"), /* row 59 */
    /* row 10: Host */
    BAD(400, "GET / HTTP/1.1\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n" H H "\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    BAD(400, "GET / HTTP/1.0\r\n" H H "\r\n"),
    BAD(400, "GET http://b/ HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET http://a/ HTTP/1.1\r\n\r\n"),
    BAD(400, "GET http:///x HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET http://u@a/ HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET ftp://a/ HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET a HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET * HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "OPTIONS *x HTTP/1.1\r\n" H "\r\n"),
    GOOD("GET a / [] \n", "GET http://A/ HTTP/1.1\r\nhOST: a\r\n\r\n"),
    GOOD("GET a / [] \n", "GET HTTPS://a HTTP/1.1\r\n" H "\r\n"),
    GOOD("GET a:80 /?q [] \n", "GET http://a:80?q HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    GOOD("GET [::1]:80 /x [] \n", "GET /x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
    GOOD("GET  / [] \n", "GET / HTTP/1.0\r\n\r\n"),
    GOOD("GET a / [] \n", "GET http://a/ HTTP/1.0\r\n\r\n"),
    GOOD("OPTIONS a * [] \n", "OPTIONS * HTTP/1.1\r\n" H "\r\n"),
    GOOD("OPTIONS a * [] \n", "OPTIONS http://a HTTP/1.1\r\n" H "\r\n"),
    /* row 11: versions */
    BAD(400, "GET /\r\n\r\n"),
    BAD(400, "GET / HTTP/0.9\r\n" H "\r\n"),
    BAD(505, "GET / HTTP/2.0\r\n" H "\r\n"),
    BAD(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    BAD(400, "GET / HTTP/1.10\r\n" H "\r\n"),
    BAD(400, "GET / HTTP/11\r\n" H "\r\n"),
    BAD(400, "GET / http/1.1\r\n" H "\r\n"),
    BAD(400, "GET / RTSP/1.0\r\n" H "\r\n"),
    BAD(400, "GET / HTTP/1.1 \r\n" H "\r\n"),
    BAD(400, "GET / HTTP/1.1 x\r\n" H "\r\n"),
    BAD(400, "GET  / HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET /  HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET\t/ HTTP/1.1\r\n" H "\r\n"),
    BAD(400, " GET / HTTP/1.1\r\n" H "\r\n"),
    GOOD("GET a / [] \n", "GET / HTTP/1.9\r\n" H "\r\n"),
    GOOD("GET a / [] \n", "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "\nGET / HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "\r\rGET / HTTP/1.1\r\n" H "\r\n"),
    /* row 12: methods */
    BAD(400, "G@T / HTTP/1.1\r\n" H "\r\n"),
    BAD(405, "CONNECT a:443 HTTP/1.1\r\n" H "\r\n"),
    BAD(405, "CONNECT a:443 HTTP/1.1\r\nHost: A:443\r\n\r\n"),
    BAD(405, "CONNECT [::1]:1 HTTP/1.1\r\nHost: [::1]\r\n\r\n"),
    BAD(400, "CONNECT a:443 HTTP/1.1\r\nHost: a:444\r\n\r\n"),
    BAD(400, "CONNECT a:443 HTTP/1.1\r\nHost: b\r\n\r\n"),
    BAD(400, "CONNECT a:443 HTTP/1.1\r\n\r\n"),
    BAD(400, "CONNECT a HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "CONNECT a: HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "CONNECT a:65536 HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "CONNECT u@a:1 HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "CONNECT / HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "CONNECT a:1/ HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "CONNECT http://a:1/ HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "CONNECT a:443 HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n"),
    BAD(400, "CONNECT a:443 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD(405, "TRACE / HTTP/1.1\r\n" H "\r\n"),
    BAD(501, "FOO / HTTP/1.1\r\n" H "\r\n"),
    BAD(501, "get / HTTP/1.1\r\n" H "\r\n"),
    BAD(501, "DESCRIBE / HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "PRI * HTTP/1.1\r\n" H "\r\n"),
    GOOD("PROPFIND a / [] \n", "PROPFIND / HTTP/1.1\r\n" H "\r\n"),
    GOOD("M-SEARCH a / [] \n", "M-SEARCH / HTTP/1.1\r\n" H "\r\n"),
    /* row 13: Expect */
    BAD(417, "POST / HTTP/1.1\r\n" H "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello"),
    BAD(417, "POST / HTTP/1.1\r\n" H "Expect: 100-continue, x\r\nContent-Length: 5\r\n\r\nhello"),
    BAD(417, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"),
    GOOD("POST a / [hello] \n", "POST / HTTP/1.0\r\n" H "Expect: whatever\r\nContent-Length: 5\r\n\r\nhello"),
    /* row 15: content where few expect it */
    GOOD("GET a / [hello] \n", "GET / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"),
    GOOD("DELETE a / [hello] \n", "DELETE / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    /* row 26: Upgrade */
    BAD(400, "GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello"),
    BAD(400, "GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    GOOD("GET a / [] connection=upgrade;upgrade=x;\n", "GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: x\r\n\r\n"),
    GOOD("POST a / [hello] upgrade=x;\n", "POST / HTTP/1.1\r\n" H "Upgrade: x\r\nContent-Length: 5\r\n\r\nhello"),
    /* row 57: targets */
    BAD(400, "GET /a#b HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET /%00 HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET /\x80 HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET /\x7f HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET /a\tb HTTP/1.1\r\n" H "\r\n"),
    BAD(400, "GET /a\0b HTTP/1.1\r\n" H "\r\n"),
    GOOD("GET a /../%2e%2e//%2f\\;x?a?b=%zz|{}\"<>^` [] \n", "GET /../%2e%2e//%2f\\;x?a?b=%zz|{}\"<>^` HTTP/1.1\r\n" H "\r\n"),
    /* row 21: trailers */
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n:x: y\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nX: \0\r\n\r\n"),
    BAD(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n no: x\r\n\r\n"),
    GOOD("POST a / []  +x=y;\n", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\nCookie: a\r\nX_Y: z\r\nHost: b\r\n\r\n"),
};
/* clang-format on */

/* What the client was told: the status of its first answer. */
static unsigned told(const struct rig *rig)
{
    return rig->heard.n > 12 ? (unsigned)strtoul(rig->heard.p + 9, NULL, 10) : 0;
}

static void check(struct rig *rig, const struct row *row, size_t index)
{
    cr_assert_eq(told(rig), row->status, "row %zu: %s\nanswered: %s", index, row->bytes,
                 rig->heard.p);
    if (row->status == 200) {
        cr_assert_str_eq(rig->requests.p, row->served, "row %zu", index);
        return;
    }
    /* Chunks are found to be bad within the content: then there was an exchange, which is not one of the smuggled. */
    cr_assert_str_eq(rig->requests.p, "", "row %zu: %s", index, row->bytes);
    bool old = strstr(row->bytes, "HTTP/1.0") != NULL;
    cr_assert_eq(strstr(rig->heard.p, "connection: close\r\n") == NULL, old, "row %zu", index);
    cr_assert(rig->heard_end, "row %zu", index);
    cr_assert_eq(rig->finished, 1);
}

static struct rig *start(void)
{
    struct rig *rig = rig_new(false);
    rig_start(rig);
    return rig;
}

Test(h1_requests, whole_with_another_behind)
{
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        struct rig *rig = start();
        struct text bytes = {0};
        text_add(&bytes, rows[i].bytes, rows[i].n);
        if (rows[i].status != 200)
            text_add(&bytes, AFTER, sizeof(AFTER) - 1);
        rig_say_n(rig, bytes.p, bytes.n);
        check(rig, &rows[i], i);
        text_free(&bytes);
        rig_free(rig);
    }
}

Test(h1_requests, byte_by_byte)
{
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        struct rig *rig = start();
        rig_dribble(rig, rows[i].bytes, rows[i].n, 1);
        check(rig, &rows[i], i);
        rig_free(rig);
    }
}

Test(h1_requests, cut_at_every_place, .timeout = 110)
{
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        for (size_t cut = 1; cut < rows[i].n; cut++) {
            struct rig *rig = start();
            rig_dribble(rig, rows[i].bytes, rows[i].n, cut);
            check(rig, &rows[i], i);
            rig_free(rig);
        }
    }
}

/* ---- sizes (row 53) ---- */

static void add_repeated(struct text *text, char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text_add(text, &c, 1);
}

/* A request whose target has TARGET bytes, with FIELDS fields of VALUE bytes. */
static unsigned status_of(size_t target, unsigned fields, size_t value, size_t piece)
{
    struct rig *rig = start();
    struct text bytes = {0};
    text_say(&bytes, "GET /");
    add_repeated(&bytes, 'a', target - 1);
    text_say(&bytes, " HTTP/1.1\r\nHost: a\r\n");
    for (unsigned i = 1; i < fields; i++) {
        text_say(&bytes, "X-%u: ", i);
        add_repeated(&bytes, 'v', value);
        text_say(&bytes, "\r\n");
    }
    text_say(&bytes, "\r\n");
    rig_dribble(rig, bytes.p, bytes.n, piece);
    unsigned status = told(rig);
    cr_assert_eq(rig->heard_end, status != 200);
    text_free(&bytes);
    rig_free(rig);
    return status;
}

Test(h1_requests, what_is_too_large_is_told_apart)
{
    static const size_t pieces[] = {1000000, 100, 7};
    for (size_t i = 0; i < WR_COUNT_OF(pieces); i++) {
        cr_assert_eq(status_of(1024, 2, 10, pieces[i]), 200);
        cr_assert_eq(status_of(1025, 2, 10, pieces[i]), 414);
        cr_assert_eq(status_of(3000, 2, 10, pieces[i]), 414);
        cr_assert_eq(status_of(20000, 2, 10, pieces[i]), 414);
        cr_assert_eq(status_of(10, 32, 10, pieces[i]), 200);
        cr_assert_eq(status_of(10, 33, 10, pieces[i]), 431);
        cr_assert_eq(status_of(10, 500, 0, pieces[i]), 431);
        cr_assert_eq(status_of(10, 10, 890, pieces[i]), 200);
        cr_assert_eq(status_of(10, 10, 910, pieces[i]), 431);
        cr_assert_eq(status_of(10, 2, 100000, pieces[i]), 431);
    }
}

Test(h1_requests, a_head_without_end_is_refused_at_its_limit)
{
    static const char *const starts[] = {"", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nX: "};
    static const unsigned statuses[] = {414, 431, 431};
    for (size_t i = 0; i < WR_COUNT_OF(starts); i++) {
        struct rig *rig = start();
        struct text bytes = {0};
        text_say(&bytes, "%s", starts[i]);
        add_repeated(&bytes, 'a', 9000);
        rig_say_n(rig, bytes.p, bytes.n);
        cr_assert_eq(told(rig), statuses[i]);
        text_free(&bytes);
        rig_free(rig);
    }
}

/* ---- chunk overhead (row 7) ---- */

/* COUNT chunks of SIZE bytes, each with an extension of EXTENSION bytes. */
static unsigned status_of_chunks(unsigned count, unsigned size, size_t extension)
{
    struct rig *rig = start();
    struct text bytes = {0};
    text_say(&bytes, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < count; i++) {
        text_say(&bytes, "%x;", size);
        add_repeated(&bytes, 'e', extension);
        text_say(&bytes, "\r\n");
        add_repeated(&bytes, 'd', size);
        text_say(&bytes, "\r\n");
    }
    text_say(&bytes, "0\r\n\r\n");
    rig_say_n(rig, bytes.p, bytes.n);
    unsigned status = told(rig);
    text_free(&bytes);
    rig_free(rig);
    return status;
}

Test(h1_requests, chunk_extensions_are_bounded_and_small_chunks_are_not)
{
    cr_assert_eq(status_of_chunks(1, 1, 900), 200);
    cr_assert_eq(status_of_chunks(1, 1, 1100), 400);
    cr_assert_eq(status_of_chunks(1, 1, 100000), 400);
    cr_assert_eq(status_of_chunks(100, 1, 30), 400);
    cr_assert_eq(status_of_chunks(5000, 1, 4), 200);
    cr_assert_eq(status_of_chunks(200, 100, 100), 200);
}

Test(h1_requests, trailers_are_bounded)
{
    for (unsigned count = 32; count <= 33; count++) {
        struct rig *rig = start();
        struct text bytes = {0};
        text_say(&bytes, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
        for (unsigned i = 0; i < count; i++)
            text_say(&bytes, "X-%u: y\r\n", i);
        text_say(&bytes, "\r\n");
        rig_say_n(rig, bytes.p, bytes.n);
        cr_assert_eq(told(rig), count == 32 ? 200u : 400u);
        text_free(&bytes);
        rig_free(rig);
    }
}

Test(h1_requests, underscores_pass_when_allowed)
{
    struct rig *rig = rig_new(false);
    rig->server_options.underscores = true;
    rig_start(rig);
    rig_say(rig, "GET / HTTP/1.1\r\nHost: a\r\nX_Y: z\r\n\r\n");
    cr_assert_str_eq(rig->requests.p, "GET a / [] x_y=z;\n");
    rig_free(rig);
}
