/* Rows 1 to 5 and 8 to 13 of the table of hostile input: request heads that are refused before anything goes upstream. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/stage.h"

#define GET "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n"
#define HOST "Host: localhost\r\n"
#define CHUNKS "5\r\nhello\r\n0\r\n\r\n"

#define REFUSED(cases)                                                          \
    do {                                                                        \
        struct stage *stage = stage_start(NULL);                                \
        stage_expect_refused(stage, cases, sizeof(cases) / sizeof((cases)[0])); \
        stage_stop(stage);                                                      \
    } while (0)

Test(row_01, cl_and_te_together)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("CL first", 400,
                   POST HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("TE first", 400,
                   POST HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" CHUNKS),
        STAGE_CASE("CL 0", 400,
                   POST HOST "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("case of names", 400,
                   POST HOST "CONTENT-LENGTH: 5\r\ntRANSFER-eNCODING: Chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("far apart", 400,
                   POST "Content-Length: 5\r\n" HOST "A: b\r\nTransfer-Encoding: chunked\r\n"
                        "C: d\r\n\r\n" CHUNKS),
        STAGE_CASE("GET", 400,
                   GET HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS),
    };
    REFUSED(cases);
}

Test(row_02, more_than_one_length)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("two", 400, POST HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
        STAGE_CASE("list", 400, POST HOST "Content-Length: 5, 6\r\n\r\nhello"),
        STAGE_CASE("equal ones", 400,
                   POST HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        STAGE_CASE("list of equals", 400, POST HOST "Content-Length: 5, 5\r\n\r\nhello"),
        STAGE_CASE("one empty", 400, POST HOST "Content-Length: 5\r\nContent-Length:\r\n\r\nhello"),
        STAGE_CASE("0 and 5", 400, POST HOST "Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello"),
    };
    REFUSED(cases);
}

Test(row_03, length_is_no_number)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("empty", 400, POST HOST "Content-Length:\r\n\r\nhello"),
        STAGE_CASE("space", 400, POST HOST "Content-Length:  \r\n\r\nhello"),
        STAGE_CASE("plus", 400, POST HOST "Content-Length: +5\r\n\r\nhello"),
        STAGE_CASE("minus", 400, POST HOST "Content-Length: -5\r\n\r\nhello"),
        STAGE_CASE("minus 0", 400, POST HOST "Content-Length: -0\r\n\r\nhello"),
        STAGE_CASE("hex", 400, POST HOST "Content-Length: 0x5\r\n\r\nhello"),
        STAGE_CASE("underscore", 400, POST HOST "Content-Length: 1_0\r\n\r\nhellohello"),
        STAGE_CASE("inner space", 400, POST HOST "Content-Length: 1 0\r\n\r\nhellohello"),
        STAGE_CASE("letters", 400, POST HOST "Content-Length: five\r\n\r\nhello"),
        STAGE_CASE("point", 400, POST HOST "Content-Length: 5.0\r\n\r\nhello"),
        STAGE_CASE("comma behind", 400, POST HOST "Content-Length: 5,\r\n\r\nhello"),
        STAGE_CASE("comma before", 400, POST HOST "Content-Length: ,5\r\n\r\nhello"),
        STAGE_CASE("vertical tab", 400,
                   POST HOST "Content-Length: \x0b"
                             "5\r\n\r\nhello"),
        STAGE_CASE("2^63", 400, POST HOST "Content-Length: 9223372036854775808\r\n\r\nhello"),
        STAGE_CASE("2^64 and 5", 400,
                   POST HOST "Content-Length: 18446744073709551621\r\n\r\nhello"),
        STAGE_CASE("30 digits", 400,
                   POST HOST "Content-Length: 100000000000000000000000000005\r\n\r\nhello"),
        STAGE_CASE("not ASCII", 400, POST HOST "Content-Length: \xd9\xa5\r\n\r\nhello"),
        STAGE_CASE("GET", 400, GET HOST "Content-Length: -1\r\n\r\nhello"),
    };
    REFUSED(cases);
}

Test(row_04, transfer_coding_is_not_chunked)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("unknown", 501, POST HOST "Transfer-Encoding: cow\r\n\r\n" CHUNKS),
        STAGE_CASE("identity", 501, POST HOST "Transfer-Encoding: identity\r\n\r\n" CHUNKS),
        STAGE_CASE("x before", 501, POST HOST "Transfer-Encoding: xchunked\r\n\r\n" CHUNKS),
        STAGE_CASE("gzip", 501, POST HOST "Transfer-Encoding: gzip, chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("cow behind", 501, POST HOST "Transfer-Encoding: chunked, cow\r\n\r\n" CHUNKS),
        STAGE_CASE("parameter", 501, POST HOST "Transfer-Encoding: chunked;q=1\r\n\r\n" CHUNKS),
        STAGE_CASE("space inside", 501, POST HOST "Transfer-Encoding: chun ked\r\n\r\n" CHUNKS),
        STAGE_CASE("quotes", 501, POST HOST "Transfer-Encoding: \"chunked\"\r\n\r\n" CHUNKS),
        STAGE_CASE("second unknown", 501,
                   POST HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n" CHUNKS),
        STAGE_CASE("comma before", 400, POST HOST "Transfer-Encoding: ,chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("comma behind", 400, POST HOST "Transfer-Encoding: chunked,\r\n\r\n" CHUNKS),
        STAGE_CASE("tab behind", 400, POST HOST "Transfer-Encoding: chunked\t\r\n\r\n" CHUNKS),
        STAGE_CASE("tab before", 400, POST HOST "Transfer-Encoding:\tchunked\r\n\r\n" CHUNKS),
        STAGE_CASE("vertical tab", 400,
                   POST HOST "Transfer-Encoding: \x0b"
                             "chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("form feed", 400, POST HOST "Transfer-Encoding: chunked\x0c\r\n\r\n" CHUNKS),
        STAGE_CASE("twice", 400, POST HOST "Transfer-Encoding: chunked, chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("two fields", 400,
                   POST HOST
                   "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("empty", 400, POST HOST "Transfer-Encoding:\r\n\r\n" CHUNKS),
        STAGE_CASE("in HTTP/1.0", 400,
                   "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n" CHUNKS),
    };
    REFUSED(cases);
}

Test(row_05, line_ends_and_nul)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("LF after the request line", 400, "GET / HTTP/1.1\n" HOST "\r\n"),
        STAGE_CASE("LF after a field", 400, GET "Host: localhost\n\r\n"),
        STAGE_CASE("LF for the empty line", 400, GET HOST "\n"),
        STAGE_CASE("LF everywhere", 400, "GET / HTTP/1.1\nHost: localhost\n\n"),
        STAGE_CASE("LF first", 400, "\n" GET HOST "\r\n"),
        STAGE_CASE("LF inside a value", 400, GET HOST "A: b\nC: d\r\n\r\n"),
        STAGE_CASE("CR inside a value", 400, GET HOST "A: b\rC: d\r\n\r\n"),
        STAGE_CASE("CR at the end of a value", 400, GET HOST "A: b\r\r\n\r\n"),
        STAGE_CASE("CR for an empty line", 400, GET HOST "\r\r\n\r\n"),
        STAGE_CASE("CR in the request line", 400, "GET /\rHTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("CR after the version", 400, "GET / HTTP/1.1\r\r\n" HOST "\r\n"),
        STAGE_CASE("NUL in a value", 400, GET HOST "A: b\0c\r\n\r\n"),
        STAGE_CASE("NUL in Host", 400, GET "Host: local\0host\r\n\r\n"),
        STAGE_CASE("NUL in a name", 400, GET HOST "A\0: b\r\n\r\n"),
        STAGE_CASE("NUL in the target", 400, "GET /\0 HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("NUL first", 400, "\0" GET HOST "\r\n"),
    };
    REFUSED(cases);
}

Test(row_08, folded_lines)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("space", 400, GET HOST "A: b\r\n c\r\n\r\n"),
        STAGE_CASE("tab", 400, GET HOST "A: b\r\n\tc\r\n\r\n"),
        STAGE_CASE("nothing but space", 400, GET HOST "A: b\r\n \r\n\r\n"),
        STAGE_CASE("before the first name", 400, GET " " HOST "\r\n"),
        STAGE_CASE("tab before the first name", 400, GET "\t" HOST "\r\n"),
        STAGE_CASE("before Host", 400, GET "A: b\r\n " HOST "\r\n"),
        STAGE_CASE("a coding", 400, POST HOST "Transfer-Encoding:\r\n chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("a length", 400, POST HOST "Content-Length:\r\n 5\r\n\r\nhello"),
        STAGE_CASE("before the request line", 400, " " GET HOST "\r\n"),
    };
    REFUSED(cases);
}

Test(row_09, names)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("space before colon", 400, GET HOST "A : b\r\n\r\n"),
        STAGE_CASE("tab before colon", 400, GET HOST "A\t: b\r\n\r\n"),
        STAGE_CASE("Host with space", 400, GET "Host : localhost\r\n\r\n"),
        STAGE_CASE("length with space", 400, POST HOST "Content-Length : 5\r\n\r\nhello"),
        STAGE_CASE("coding with tab", 400, POST HOST "Transfer-Encoding\t: chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("space inside", 400, GET HOST "A b: c\r\n\r\n"),
        STAGE_CASE("no token", 400, GET HOST "(a): b\r\n\r\n"),
        STAGE_CASE("slash", 400, GET HOST "a/b: c\r\n\r\n"),
        STAGE_CASE("quote", 400, GET HOST "\"a\": c\r\n\r\n"),
        STAGE_CASE("not ASCII", 400, GET HOST "A\x80: b\r\n\r\n"),
        STAGE_CASE("0x7f", 400, GET HOST "A\x7f: b\r\n\r\n"),
        STAGE_CASE("empty", 400, GET HOST ": b\r\n\r\n"),
        STAGE_CASE("no colon", 400, GET HOST "nothing\r\n\r\n"),
        STAGE_CASE("no colon, last", 400, GET HOST "A: b\r\nnothing\r\n\r\n"),
        STAGE_CASE("vertical tab before colon", 400,
                   POST HOST "Content-Length\x0b: 5\r\n\r\nhello"),
    };
    REFUSED(cases);
}

Test(row_10, host)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("missing", 400, GET "A: b\r\n\r\n"),
        STAGE_CASE("twice", 400, GET HOST "Host: other\r\n\r\n"),
        STAGE_CASE("twice the same", 400, GET HOST HOST "\r\n"),
        STAGE_CASE("list", 400, GET "Host: localhost, other\r\n\r\n"),
        STAGE_CASE("space", 400, GET "Host: local host\r\n\r\n"),
        STAGE_CASE("slash", 400, GET "Host: localhost/x\r\n\r\n"),
        STAGE_CASE("backslash", 400, GET "Host: localhost\\x\r\n\r\n"),
        STAGE_CASE("user", 400, GET "Host: user@localhost\r\n\r\n"),
        STAGE_CASE("query", 400, GET "Host: localhost?x\r\n\r\n"),
        STAGE_CASE("fragment", 400, GET "Host: localhost#x\r\n\r\n"),
        STAGE_CASE("port of letters", 400, GET "Host: localhost:http\r\n\r\n"),
        STAGE_CASE("two ports", 400, GET "Host: localhost:80:81\r\n\r\n"),
        STAGE_CASE("open bracket", 400, GET "Host: [::1\r\n\r\n"),
        STAGE_CASE("text after bracket", 400, GET "Host: [::1]x\r\n\r\n"),
        STAGE_CASE("not ASCII", 400, GET "Host: l\xc3\xb6\r\n\r\n"),
        STAGE_CASE("URI", 400, GET "Host: http://localhost\r\n\r\n"),
        STAGE_CASE("not the target's", 400, "GET http://other/ HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("not the target's port", 400,
                   "GET http://localhost:8/ HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("target without Host", 400, "GET http://localhost/ HTTP/1.1\r\n\r\n"),
        STAGE_CASE("target with user", 400, "GET http://u@localhost/ HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("target without authority", 400, "GET http:///x HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("target of another scheme", 400,
                   "GET ftp://localhost/ HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("target without slash", 400, "GET x HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("asterisk", 400, "GET * HTTP/1.1\r\n" HOST "\r\n"),
    };
    REFUSED(cases);
}

Test(row_10, absolute_form_goes_upstream_in_origin_form)
{
    struct stage *stage = stage_start(NULL);

    cr_expect_eq(
        stage_status(stage, "GET http://LocalHost:80/a?b HTTP/1.1\r\nHost: localhost:80\r\n\r\n"),
        200);
    cr_assert(script_wait_requests(stage->script, 1));
    cr_expect(strncmp(script_request(stage->script, 0)->head, "GET /a?b HTTP/1.1\r\n", 19) == 0,
              "%s", script_request(stage->script, 0)->head);
    cr_expect_str_eq(script_field(stage->script, 0, "host"), "localhost:80");
    cr_expect_eq(script_fields(stage->script, 0, "host"), 1);
    stage_stop(stage);
}

Test(row_11, versions)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("0.9 by form", 400, "GET /\r\n\r\n"),
        STAGE_CASE("0.9 by name", 400, "GET / HTTP/0.9\r\n" HOST "\r\n"),
        STAGE_CASE("2.0", 505, "GET / HTTP/2.0\r\n" HOST "\r\n"),
        STAGE_CASE("3.0", 505, "GET / HTTP/3.0\r\n" HOST "\r\n"),
        STAGE_CASE("no minor", 400, "GET / HTTP/1\r\n" HOST "\r\n"),
        STAGE_CASE("two digits", 400, "GET / HTTP/1.10\r\n" HOST "\r\n"),
        STAGE_CASE("leading 0", 400, "GET / HTTP/01.1\r\n" HOST "\r\n"),
        STAGE_CASE("comma", 400, "GET / HTTP/1,1\r\n" HOST "\r\n"),
        STAGE_CASE("lower case", 400, "GET / http/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("space behind", 400, "GET / HTTP/1.1 \r\n" HOST "\r\n"),
        STAGE_CASE("space inside", 400, "GET / HTTP /1.1\r\n" HOST "\r\n"),
        STAGE_CASE("another protocol", 400, "GET / SIP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("two spaces", 400, "GET  / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("two spaces after the target", 400, "GET /  HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("tab", 400, "GET\t/ HTTP/1.1\r\n" HOST "\r\n"),
    };
    REFUSED(cases);
}

Test(row_11, higher_minor_is_1_1)
{
    struct stage *stage = stage_start(NULL);

    cr_expect_eq(stage_status(stage, "GET /x HTTP/1.2\r\n" HOST "\r\n"), 200);
    cr_expect_eq(stage_status(stage, "GET /x HTTP/1.9\r\n" HOST "\r\n"), 200);
    cr_assert(script_wait_requests(stage->script, 2));
    cr_expect(strstr(script_request(stage->script, 0)->head, "GET /x HTTP/1.1\r\n"));
    cr_expect(strstr(script_request(stage->script, 1)->head, "GET /x HTTP/1.1\r\n"));
    stage_stop(stage);
}

/* Where HTTP/2 is off, and over TLS to who has not agreed on it. */
Test(row_11, the_preface_of_http2)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("preface of HTTP/2", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    };
    struct stage *stage = stage_start(&(struct stage_options){.listener = "http2: off"});

    stage_expect_refused(stage, cases, 1);
    stage_stop(stage);
}

Test(row_12, methods)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("no token", 400, "G(T / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("control", 400, "G\x01T / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("not ASCII", 400, "G\xc3\x84T / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("colon", 400, "GET: / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("unknown", 501, "COW / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("lower case", 501, "get / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("begins with a known one", 501, "GETS / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("CONNECT", 405, "CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("CONNECT with a path", 400, "CONNECT / HTTP/1.1\r\n" HOST "\r\n"),
        STAGE_CASE("TRACE", 405, "TRACE / HTTP/1.1\r\n" HOST "\r\n"),
    };
    REFUSED(cases);
}

Test(row_13, expectations)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("another", 417, POST HOST "Content-Length: 5\r\nExpect: 200-ok\r\n\r\nhello"),
        STAGE_CASE("letter before", 417,
                   POST HOST "Content-Length: 5\r\nExpect: y 100-continue\r\n\r\nhello"),
        STAGE_CASE("list", 417,
                   POST HOST
                   "Content-Length: 5\r\nExpect: 100-continue, 100-continue\r\n\r\nhello"),
        STAGE_CASE("two fields", 417,
                   POST HOST "Content-Length: 5\r\nExpect: 100-continue\r\nExpect: x\r\n\r\nhello"),
        STAGE_CASE("parameter", 417,
                   POST HOST "Content-Length: 5\r\nExpect: 100-continue;a=b\r\n\r\nhello"),
        STAGE_CASE("folded", 400,
                   POST HOST "Content-Length: 5\r\nExpect:\r\n 100-continue\r\n\r\nhello"),
    };
    REFUSED(cases);
}

static void expect_continued(struct stage *stage, const char *request, unsigned index)
{
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, request, 0);

    cr_expect_eq(reply.status, 100, "%s: %d", request, reply.status);
    cr_expect_eq(script_fields(stage->script, index, "expect"), 1);
    cr_expect_str_eq(script_field(stage->script, index, "expect"), "100-continue");
    reply_free(&reply);
    reply = stage_ask(peer, "hello", 0);
    cr_expect_eq(reply.status, 200);
    cr_assert(script_wait_whole(stage->script, index + 1));
    cr_expect_str_eq(script_request(stage->script, index)->content, "hello");
    reply_free(&reply);
    peer_free(peer);
}

Test(row_13, continue_is_asked_once_end_to_end)
{
    static const struct script_answer asking = {.interim = "HTTP/1.1 100 Continue\r\n\r\n"};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, &asking, 1);
    expect_continued(stage, POST HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", 0);
    expect_continued(stage, POST HOST "Content-Length: 5\r\nexpect:100-Continue \r\n\r\n", 1);
    stage_stop(stage);
}
