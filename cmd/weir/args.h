/* The command line. */
#ifndef WR_WEIR_ARGS_H
#define WR_WEIR_ARGS_H

#include <stdbool.h>

enum wr_command {
    WR_COMMAND_RUN,
    WR_COMMAND_CHECK,
    WR_COMMAND_DUMP,
    WR_COMMAND_HEALTH,
    WR_COMMAND_SCHEMA,
    WR_COMMAND_SCHEMA_JSON,
    WR_COMMAND_VERSION,
    WR_COMMAND_HELP
};

struct wr_args {
    enum wr_command command;
    const char *config; /* of RUN, CHECK, DUMP and HEALTH: a path, "-" = standard input */
};

#define WR_ARGS_ERROR 256

/* False: ERROR says what is wrong and what would be right, one line. */
bool wr_args_parse(int argc, char *const argv[], struct wr_args *out, char error[WR_ARGS_ERROR]);

extern const char wr_args_usage[]; /* a few lines */
extern const char wr_args_help[];  /* all there is to know */

#endif
