/* The table of keys as documents, so that none can say what the reader of files does not do. */
#ifndef WR_CONFIG_REFERENCE_H
#define WR_CONFIG_REFERENCE_H

#include <stdio.h>

/* config/reference.md: a section a mapping, a row a key. */
void wr_reference_markdown(FILE *out);
/* config/schema.json: JSON Schema (draft 2020-12) for editors. */
void wr_reference_json(FILE *out);

#endif
