#include <criterion/criterion.h>

#include <string.h>

#include "proxy/path.h"

static struct wr_arena arena;

struct row {
    const char *in;
    const char *out; /* NULL: BAD_REQUEST */
};

static void check(const struct row *rows, size_t count, enum wr_path_policy policy)
{
    wr_arena_init(&arena);
    for (size_t i = 0; i < count; i++) {
        struct wr_str out = WR_STR_EMPTY;
        enum wr_err err = wr_path_normalise(wr_str_from(rows[i].in), policy, &arena, &out);
        if (rows[i].out == NULL) {
            cr_expect_eq(err, WR_ERR_BAD_REQUEST, "%s was let through as %.*s", rows[i].in,
                         WR_STR_ARG(out));
        } else {
            cr_expect_eq(err, WR_OK, "%s was refused", rows[i].in);
            cr_expect(wr_str_eq(out, wr_str_from(rows[i].out)), "%s became %.*s, not %s",
                      rows[i].in, WR_STR_ARG(out), rows[i].out);
        }
    }
    wr_arena_free(&arena);
}

#define CHECK(policy, ...)                              \
    do {                                                \
        static const struct row rows[] = {__VA_ARGS__}; \
        check(rows, WR_COUNT_OF(rows), policy);         \
    } while (0)

Test(path, dot_segments_are_resolved)
{
    CHECK(WR_PATH_STRICT, {"/", "/"}, {"/a", "/a"}, {"/a/", "/a/"}, {"/.", "/"}, {"/./", "/"},
          {"/a/.", "/a/"}, {"/a/./b", "/a/b"}, {"/a/..", "/"}, {"/a/../", "/"}, {"/a/../b", "/b"},
          {"/a/b/..", "/a/"}, {"/a/b/../..", "/"}, {"/a/b/../../c", "/c"},
          {"/a/b/./../c/", "/a/c/"}, {"/a/b?/../..", "/a/b?/../.."}, {"*", "*"});
}

Test(path, names_that_only_look_like_dot_segments_are_kept)
{
    CHECK(WR_PATH_STRICT, {"/...", "/..."}, {"/.a", "/.a"}, {"/..a/", "/..a/"}, {"/a./b", "/a./b"},
          {"/a../b", "/a../b"}, {"/.well-known/x", "/.well-known/x"});
}

Test(path, nothing_is_above_the_root)
{
    CHECK(WR_PATH_STRICT, {"/..", NULL}, {"/../", NULL}, {"/a/../..", NULL}, {"/a/../../b", NULL},
          {"/./..", NULL}, {"/%2e%2e/etc/passwd", NULL}, {"/a/%2E%2e/.%2e/b", NULL});
}

Test(path, dots_may_be_written_as_escapes)
{
    CHECK(WR_PATH_STRICT, {"/a/%2e%2e/b", "/b"}, {"/a/%2E./b", "/b"}, {"/a/.%2e", "/"},
          {"/a/%2e/b", "/a/b"}, {"/a%2eb", "/a.b"});
}

Test(path, unreserved_characters_have_one_form)
{
    CHECK(WR_PATH_STRICT, {"/%61pi", "/api"}, {"/%7Euser/%2d%5F%30", "/~user/-_0"},
          {"/a%2Fb", "/a%2Fb"}, {"/a%2fb/../c", "/c"}, {"/a%5cb", "/a%5cb"}, {"/a%3fb", "/a%3fb"},
          {"/%c3%a4", "/%c3%a4"}, {"/%252e%252e/", "/%252e%252e/"}, {"/a%20b", "/a%20b"});
}

Test(path, parameters_are_kept)
{
    CHECK(WR_PATH_STRICT, {"/a;x=1/b", "/a;x=1/b"}, {"/a/..;/b", "/a/..;/b"});
}

Test(path, strict_keeps_empty_segments)
{
    CHECK(WR_PATH_STRICT, {"//", "//"}, {"/a//b", "/a//b"}, {"/a//../b", "/a/b"},
          {"//evil.example/x", "//evil.example/x"}, {"/a//..", "/a/"});
}

Test(path, merge_slashes_does_not)
{
    CHECK(WR_PATH_MERGE_SLASHES, {"//", "/"}, {"/a//b", "/a/b"}, {"/a///b//", "/a/b/"},
          {"/a//../b", "/b"}, {"/a?b//c", "/a?b//c"}, {"/a/b", "/a/b"}, {"//..", NULL});
}

Test(path, malformed_escapes_are_refused)
{
    CHECK(WR_PATH_STRICT, {"/%", NULL}, {"/%2", NULL}, {"/%zz", NULL}, {"/a%2", NULL},
          {"/%2%46", NULL}, {"/%u0041", NULL}, {"/a?%", "/a?%"}, {"/a?%zz", "/a?%zz"});
}

Test(path, hostile_bytes_are_refused_whatever_the_policy)
{
    static const char *const paths[] = {"/a%00b",    "/a#b",   "/a b",    "/a\tb",  "/a\x7f",
                                        "/\xc3\xa4", "/a?b c", "/a?\xff", "/a?b#c", "/a\r\nb"};
    static const enum wr_path_policy policies[] = {WR_PATH_STRICT, WR_PATH_MERGE_SLASHES,
                                                   WR_PATH_RAW};
    wr_arena_init(&arena);
    for (size_t i = 0; i < WR_COUNT_OF(paths); i++) {
        for (size_t j = 0; j < WR_COUNT_OF(policies); j++) {
            struct wr_str out;
            cr_expect_eq(wr_path_normalise(wr_str_from(paths[i]), policies[j], &arena, &out),
                         WR_ERR_BAD_REQUEST, "%s", paths[i]);
        }
    }
    struct wr_str out;
    cr_expect_eq(wr_path_normalise(wr_str("/a\0b", 4), WR_PATH_RAW, &arena, &out),
                 WR_ERR_BAD_REQUEST);
    wr_arena_free(&arena);
}

Test(path, a_backslash_and_a_path_without_root_are_refused)
{
    CHECK(WR_PATH_STRICT, {"/a\\..\\b", NULL}, {"", NULL}, {"a/b", NULL}, {"?x", NULL},
          {"/a?b\\c", "/a?b\\c"});
}

Test(path, raw_changes_nothing)
{
    CHECK(WR_PATH_RAW, {"/a/../b", "/a/../b"}, {"/..", "/.."}, {"//", "//"}, {"/%2e", "/%2e"},
          {"/%zz", "/%zz"}, {"/a\\b", "/a\\b"});
}

Test(path, a_path_that_needs_no_change_is_not_copied)
{
    wr_arena_init(&arena);
    struct wr_str in = WR_STR("/a/b.c/d?e=%zz/../");
    struct wr_str out;
    cr_assert_eq(wr_path_normalise(in, WR_PATH_MERGE_SLASHES, &arena, &out), WR_OK);
    cr_assert_eq(out.p, in.p);
    cr_assert_eq(arena.held, 0);
    wr_arena_free(&arena);
}

Test(path, normalising_twice_changes_nothing_more)
{
    static const char alphabet[] = "/.a%2e;5cf";
    unsigned seed = 1;
    for (unsigned round = 0; round < 20000; round++) {
        char text[16] = "/";
        for (size_t i = 1; i < sizeof(text) - 1; i++) {
            seed = seed * 1103515245u + 12345u;
            text[i] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
        }
        wr_arena_init(&arena);
        struct wr_str once;
        struct wr_str twice;
        if (wr_path_normalise(wr_str_from(text), WR_PATH_STRICT, &arena, &once) == WR_OK) {
            cr_assert_eq(wr_path_normalise(once, WR_PATH_STRICT, &arena, &twice), WR_OK);
            cr_assert(wr_str_eq(once, twice), "%s: %.*s, %.*s", text, WR_STR_ARG(once),
                      WR_STR_ARG(twice));
        }
        wr_arena_free(&arena);
    }
}
