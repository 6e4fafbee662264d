/* Pages in memory: what those of the admin server are put together with. */
#ifndef WR_SERVER_PAGE_H
#define WR_SERVER_PAGE_H

#include <stddef.h>
#include <stdio.h>

/* What is written to the returned file is in *TEXT, terminated and LENGTH bytes long, once it is closed. Owner of *TEXT: the caller (free()). */
FILE *wr_page_open(char **text, size_t *length);
void wr_page_close(FILE *out);
/* A name from the configuration, so that no terminal and no parser takes it for anything else. */
void wr_page_put_name(FILE *out, const char *name);
/* TEXT as a paragraph that is set in, from a new line on. */
void wr_page_put_wrapped(FILE *out, const char *text);

#endif
