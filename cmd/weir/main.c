#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "config/reference.h"
#include "config/snapshot.h"
#include "server/health.h"
#include "server/server.h"
#include "transport/tls.h"
#include "weir/args.h"
#include "weir_build.h"

/* As wr_args_help tells. */
enum exit_status { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_WRONG = 2, EXIT_CUT_OFF = 3 };

static int printed(void)
{
    return fflush(stdout) == 0 ? EXIT_FINE : EXIT_FAILED;
}

static void report_error(void *arg, const char *text)
{
    (void)arg;
    (void)fprintf(stderr, "%s\n", text);
}

/* NULL: it is not valid, and has been told why. Owner: the caller. */
static const struct wr_snapshot *load(const char *path)
{
    const struct wr_config_report report = {.error = report_error};
    const struct wr_snapshot *snapshot = NULL;
    struct stat st;
    if (wr_snapshot_load(path, &report, &snapshot) == WR_OK)
        return snapshot;
    if (strcmp(path, "-") != 0 && stat(path, &st) != 0 && errno == ENOENT)
        (void)fputs("weir: -c wants the path of a configuration; config/weir.yaml in the source is "
                    "a sample to start from\n",
                    stderr);
    return NULL;
}

static int check(const char *path)
{
    const struct wr_snapshot *snapshot = load(path);
    if (snapshot == NULL)
        return EXIT_WRONG;
    wr_snapshot_release(snapshot);
    (void)printf("weir: %s is valid\n", path);
    return printed();
}

static int dump(const char *path)
{
    const struct wr_snapshot *snapshot = load(path);
    if (snapshot == NULL)
        return EXIT_WRONG;
    wr_snapshot_dump(snapshot, stdout);
    wr_snapshot_release(snapshot);
    return printed();
}

static int health(const char *path)
{
    const struct wr_config_report report = {.error = report_error};
    struct wr_address admin;
    char said[WR_HEALTH_WORDS];
    if (wr_snapshot_load_admin(path, &report, &admin) != WR_OK)
        return EXIT_WRONG;
    bool ready = wr_health_ask(&admin, "/readyz", said);
    (void)printf("%s: %s\n", ready ? "ready" : "not ready", said);
    return printed() == EXIT_FINE && ready ? EXIT_FINE : EXIT_FAILED;
}

static int run(const char *path)
{
    const struct wr_snapshot *snapshot = load(path);
    if (snapshot == NULL)
        return EXIT_WRONG;
    enum wr_err err = wr_server_run(snapshot);
    wr_snapshot_release(snapshot);
    if (err == WR_OK)
        return EXIT_FINE;
    return err == WR_ERR_CANCELLED ? EXIT_CUT_OFF : EXIT_FAILED;
}

static int version(void)
{
    (void)printf("weir %s (%s, %s)\n%s, %s\n", WEIR_VERSION, WEIR_PRESET, WEIR_COMPILER,
                 wr_tls_library_version(), WEIR_BORINGSSL_ORIGIN);
    return printed();
}

int main(int argc, char *argv[])
{
    struct wr_args args;
    char error[WR_ARGS_ERROR];
    if (!wr_args_parse(argc, argv, &args, error)) {
        (void)fprintf(stderr, "weir: %s\n%s", error, wr_args_usage);
        return EXIT_WRONG;
    }
    switch (args.command) {
    case WR_COMMAND_RUN:
        return run(args.config);
    case WR_COMMAND_CHECK:
        return check(args.config);
    case WR_COMMAND_DUMP:
        return dump(args.config);
    case WR_COMMAND_HEALTH:
        return health(args.config);
    case WR_COMMAND_SCHEMA:
        wr_reference_markdown(stdout);
        return printed();
    case WR_COMMAND_SCHEMA_JSON:
        wr_reference_json(stdout);
        return printed();
    case WR_COMMAND_VERSION:
        return version();
    case WR_COMMAND_HELP:
        (void)fputs(wr_args_help, stdout);
        return printed();
    }
    return EXIT_WRONG;
}
