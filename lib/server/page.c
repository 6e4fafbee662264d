#include "server/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "observe/access_log.h"

#define WIDTH 96 /* of a paragraph */

/* In memory: all that can fail is the lack of it. */
FILE *wr_page_open(char **text, size_t *length)
{
    FILE *out = open_memstream(text, length);
    WR_ASSERT(out != NULL);
    return out;
}

void wr_page_close(FILE *out)
{
    bool whole = ferror(out) == 0;
    WR_ASSERT(fclose(out) == 0 && whole);
}

void wr_page_put_name(FILE *out, const char *name)
{
    struct wr_str text = wr_str_from(name);
    char *escaped = wr_new_bytes(6 * text.n);
    (void)fwrite(escaped, 1, wr_json_escape(text, escaped), out);
    free(escaped);
}

void wr_page_put_wrapped(FILE *out, const char *text)
{
    static const char indent[] = "      ";
    size_t column = WIDTH;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column + 1 + word > WIDTH) {
            (void)fprintf(out, "\n%s", indent);
            column = sizeof(indent) - 1;
        } else {
            (void)fputc(' ', out);
            column++;
        }
        (void)fwrite(text, 1, word, out);
        column += word;
        text += word + (text[word] == ' ');
    }
    (void)fputc('\n', out);
}
