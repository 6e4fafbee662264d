/* The reader as codecs ask it; the corpora are in test/component/. */
#include <criterion/criterion.h>
#include <string.h>

#include "codec/h1_reader.h"

static const struct wr_h1_limits limits = {
    .head = 1000, .target = 100, .fields = 10, .chunk_overhead = 100};

static const char post[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789GET";

Test(h1_reader, says_what_comes_in_order)
{
    struct wr_h1_reader reader;
    struct wr_arena arena;
    struct wr_head head;
    struct wr_str input = wr_str_from(post);
    struct wr_str content;
    wr_arena_init(&arena);
    wr_h1_reader_init(&reader, true, &limits);
    cr_assert(wr_h1_reader_is_idle(&reader));
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 4, &content), WR_H1_SAYS_BEGUN);
    cr_assert_not(wr_h1_reader_is_idle(&reader));
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 4, &content), WR_H1_SAYS_HEAD);
    cr_assert_eq(wr_h1_reader_request(&reader, &arena, &head), WR_OK);
    cr_assert_eq(head.content_length, 10);
    cr_assert(head.length_given);
    cr_assert(reader.keep_alive);

    cr_assert_eq(wr_h1_reader_read(&reader, &input, 4, &content), WR_H1_SAYS_CONTENT);
    cr_assert(wr_str_eq(content, WR_STR("0123")));
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 0, &content), WR_H1_SAYS_FULL);
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 100, &content), WR_H1_SAYS_CONTENT);
    cr_assert(wr_str_eq(content, WR_STR("456789")));
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 100, &content), WR_H1_SAYS_END);
    cr_assert_eq(input.n, 3, "what follows is not touched");

    wr_h1_reader_next(&reader);
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 100, &content), WR_H1_SAYS_BEGUN);
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 100, &content), WR_H1_SAYS_MORE);
    cr_assert_eq(input.n, 0);
    wr_h1_reader_clear(&reader);
    wr_h1_reader_clear(&reader);
    wr_arena_free(&arena);
}

Test(h1_reader, failure_is_final)
{
    struct wr_h1_reader reader;
    struct wr_str input = WR_STR("(");
    struct wr_str content;
    wr_h1_reader_init(&reader, true, &limits);
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 4, &content), WR_H1_SAYS_FAILED);
    cr_assert_eq(reader.err, WR_ERR_BAD_REQUEST);
    input = wr_str_from(post);
    cr_assert_eq(wr_h1_reader_read(&reader, &input, 4, &content), WR_H1_SAYS_FAILED);
    cr_assert_not(wr_h1_reader_finish(&reader));
    wr_h1_reader_clear(&reader);
}

Test(h1_reader, a_head_in_one_read_is_not_held)
{
    struct wr_h1_reader reader;
    struct wr_str input = wr_str_from(post);
    struct wr_str content;
    wr_h1_reader_init(&reader, true, &limits);
    (void)wr_h1_reader_read(&reader, &input, 4, &content);
    (void)wr_h1_reader_read(&reader, &input, 4, &content);
    cr_assert_null(reader.section.held);
    cr_assert_eq(reader.whole.p, post);
    wr_h1_reader_clear(&reader);
}

Test(h1_reader, the_end_of_the_stream_ends_only_content_without_length)
{
    static const char *const starts[] = {"", "HTTP/1.1 200 OK\r\n\r\n",
                                         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"};
    for (size_t i = 0; i < 3; i++) {
        struct wr_h1_reader reader;
        struct wr_arena arena;
        struct wr_head head;
        struct wr_head asked;
        struct wr_str input = wr_str_from(starts[i]);
        struct wr_str content;
        wr_arena_init(&arena);
        wr_head_init(&asked);
        wr_h1_reader_init(&reader, false, &limits);
        enum wr_h1_event event = wr_h1_reader_read(&reader, &input, 4, &content);
        if (event == WR_H1_SAYS_BEGUN)
            event = wr_h1_reader_read(&reader, &input, 4, &content);
        if (event == WR_H1_SAYS_HEAD)
            cr_assert_eq(wr_h1_reader_response(&reader, &arena, &asked, &head), WR_OK);
        cr_assert_eq(wr_h1_reader_finish(&reader), i == 1);
        wr_h1_reader_clear(&reader);
        wr_arena_free(&arena);
    }
}

static enum wr_err fails_with(struct wr_str bytes, size_t piece)
{
    struct wr_h1_reader reader;
    struct wr_str content;
    enum wr_h1_event event = WR_H1_SAYS_MORE;
    wr_h1_reader_init(&reader, true, &limits);
    for (size_t at = 0; at < bytes.n && event != WR_H1_SAYS_FAILED; at += piece) {
        struct wr_str input = wr_str(bytes.p + at, bytes.n - at < piece ? bytes.n - at : piece);
        do {
            event = wr_h1_reader_read(&reader, &input, 4, &content);
        } while (event == WR_H1_SAYS_BEGUN);
    }
    cr_assert_eq(event, WR_H1_SAYS_FAILED);
    wr_h1_reader_clear(&reader);
    return reader.err;
}

/* What is wrong first is what is wrong, also when all of it is there at once. */
Test(h1_reader, several_errors_are_told_by_the_first_however_they_come)
{
    static const struct {
        const char *bytes;
        enum wr_err err;
    } rows[] = {
        {"GET / "
         "HTTP/1.1\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n"
         "b:\n\r\n",
         WR_ERR_FIELDS_TOO_LARGE},
        {"GET / "
         "HTTP/1.1\r\nb:\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n"
         "\r\n",
         WR_ERR_BAD_REQUEST},
    };
    for (size_t i = 0; i < 2; i++) {
        struct wr_str bytes = wr_str_from(rows[i].bytes);
        cr_expect_eq(fails_with(bytes, 1), rows[i].err);
        cr_expect_eq(fails_with(bytes, bytes.n), rows[i].err);
    }
    char line[300];
    memset(line, 'x', sizeof(line));
    memcpy(line, "GET /", 5);
    memcpy(line + 200, "\n\r\n", 3);
    cr_expect_eq(fails_with(wr_str(line, 203), 1), WR_ERR_URI_TOO_LONG);
    cr_expect_eq(fails_with(wr_str(line, 203), 203), WR_ERR_URI_TOO_LONG);
}
