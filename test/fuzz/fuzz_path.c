/* A request's path, the first byte is the policy: what comes out is a path, says no more than what went in, and stays as it is. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "proxy/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_segment(struct wr_str path, const char *segment)
{
    size_t length = strlen(segment);
    for (size_t i = 0; i + length < path.n && path.p[i] != '?'; i++) {
        const char *after = path.p + i + 1 + length;
        bool ends = after == path.p + path.n || *after == '/' || *after == '?';
        if (path.p[i] == '/' && ends && memcmp(path.p + i + 1, segment, length) == 0)
            return true;
    }
    return false;
}

static void expect_normal(struct wr_str path, enum wr_path_policy policy)
{
    WR_ASSERT(path.n > 0 && (path.p[0] == '/' || wr_str_eq(path, WR_STR("*"))));
    for (size_t i = 0; i < path.n; i++)
        WR_ASSERT(path.p[i] >= 0x21 && path.p[i] <= 0x7e && path.p[i] != '#');
    if (policy == WR_PATH_RAW)
        return;
    WR_ASSERT(!has_segment(path, ".") && !has_segment(path, ".."));
    for (size_t i = 0; i < path.n && path.p[i] != '?'; i++) {
        WR_ASSERT(path.p[i] != '\\');
        WR_ASSERT(policy != WR_PATH_MERGE_SLASHES || i == 0 || path.p[i] != '/' ||
                  path.p[i - 1] != '/');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum wr_path_policy policies[] = {WR_PATH_STRICT, WR_PATH_MERGE_SLASHES,
                                                   WR_PATH_RAW};
    struct wr_arena arena;
    struct wr_str out;
    struct wr_str again;
    /* Codecs let nothing else through. */
    if (size < 2 || (data[1] != '/' && !(size == 2 && data[1] == '*')))
        return 0;
    enum wr_path_policy policy = policies[data[0] % 3];
    wr_arena_init(&arena);
    if (wr_path_normalise(wr_str((const char *)data + 1, size - 1), policy, &arena, &out) ==
        WR_OK) {
        WR_ASSERT(out.n <= size - 1);
        expect_normal(out, policy);
        WR_ASSERT(wr_path_normalise(out, policy, &arena, &again) == WR_OK);
        WR_ASSERT(wr_str_eq(out, again));
    }
    wr_arena_free(&arena);
    return 0;
}
