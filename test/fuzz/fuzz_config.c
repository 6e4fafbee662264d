/* A configuration file, up to the model: what is wrong has a place in it, what is right can be dumped, and the dump means the same. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "config/model.h"

#define NAME "f.yaml"
#define MOST (16 * 1024)
#define DUMP_MOST ((size_t)32 * 1024 * 1024) /* every route of a byte or two has all its defaults */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_error(void *arg, const char *text)
{
    (void)arg;
    bool cut = strlen(text) >= 1000; /* the longest there is: a key may be as long as the file */
    bool fine = strncmp(text, NAME ":", sizeof(NAME)) == 0 && strchr(text, '\n') == NULL &&
                (cut || strstr(text, "expected") != NULL);
    if (!fine) {
        (void)fprintf(stderr, "%s\n", text);
        abort();
    }
}

static const struct wr_config_report report = {.error = on_error};

/* The dump of what TEXT says; NULL when it has errors. Owner: the caller. */
static char *dump_of(const char *text, size_t n, size_t *dumped)
{
    struct wr_errors errors = {.report = &report, .name = NAME};
    struct wr_arena arena;
    struct wr_yaml_node *root;
    struct wr_model model = {.workers = WR_STR_EMPTY};
    char *dump = NULL;

    wr_arena_init(&arena);
    enum wr_err err = wr_yaml_parse(&arena, text, n, &errors, &root);
    if (err == WR_OK)
        wr_model_read(&arena, &errors, root, &model);
    WR_ASSERT(err == WR_OK || errors.count > 0);
    if (errors.count == 0) {
        dump = malloc(DUMP_MOST);
        FILE *out = fmemopen(dump, DUMP_MOST, "w");
        WR_ASSERT(dump != NULL && out != NULL);
        wr_model_dump(&model, out);
        WR_ASSERT(fflush(out) == 0);
        *dumped = (size_t)ftell(out);
        (void)fclose(out);
    }
    wr_errors_tell(&errors);
    wr_arena_free(&arena);
    return dump;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n;
    size_t again_n;
    if (size > MOST)
        return 0;
    char *dump = dump_of((const char *)data, size, &n);
    if (dump == NULL)
        return 0;
    char *again = dump_of(dump, n, &again_n);
    if (again == NULL || again_n != n || memcmp(dump, again, n) != 0) {
        (void)fprintf(stderr, "%s\n---\n%s\n", dump, again != NULL ? again : "refused");
        abort();
    }
    free(again);
    free(dump);
    return 0;
}
