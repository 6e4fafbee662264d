#include "weir/args.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/str.h"
#include "config/values.h"

/* A command this far off is still guessed. */
#define GUESS_DISTANCE 2

const char wr_args_usage[] = "usage: weir run -c FILE      serve what FILE configures\n"
                             "       weir check -c FILE    say what is wrong with FILE\n"
                             "       weir dump -c FILE     what FILE means, with all defaults\n"
                             "       weir health -c FILE   is the one that serves FILE ready?\n"
                             "       weir schema [--json]  every key there is\n"
                             "       weir version          what this weir is made of\n"
                             "       weir help             the whole story\n";

const char wr_args_help[] =
    "weir: a TLS-terminating reverse proxy with admission control\n"
    "\n"
    "usage: weir COMMAND [-c FILE]\n"
    "\n"
    "Commands:\n"
    "  run -c FILE     serve what FILE configures until a signal ends it\n"
    "  check -c FILE   read FILE, certificates and all, and report every error as\n"
    "                  FILE:LINE:COLUMN: what is wrong; nothing is opened to clients\n"
    "  dump -c FILE    the same, and print what is in force as YAML: what FILE says,\n"
    "                  with all defaults and the environment in it\n"
    "  health -c FILE  ask the admin server that FILE names whether it accepts\n"
    "                  connections, for HEALTHCHECK and probes; looks at nothing else\n"
    "  schema          every key of the configuration, as Markdown; with --json as a\n"
    "                  JSON Schema for editors\n"
    "  version         version, build preset, compiler and TLS library\n"
    "  help            this text\n"
    "\n"
    "Options:\n"
    "  -c, --config FILE   the configuration, YAML; - reads standard input\n"
    "  -h, --help          as the command help\n"
    "      --version       as the command version\n"
    "\n"
    "Signals while it runs:\n"
    "  SIGTERM, SIGINT   drain: accept no more, let requests finish, end; at most\n"
    "                    defaults.timeouts.drain (30s). A second one ends at once.\n"
    "  SIGUSR1           open the access log again, after it was renamed\n"
    "  SIGHUP, SIGUSR2   ignored: this version takes a new configuration by restart\n"
    "\n"
    "Exit status:\n"
    "  0   ended, and every request was finished\n"
    "  1   could not start: the log says why; health: not ready\n"
    "  2   wrong usage or configuration\n"
    "  3   ended, but the drain timeout passed or a second signal came:\n"
    "      what was still open was cut off\n"
    "\n"
    "The error log goes to standard error. Relative paths in FILE start at the\n"
    "working directory. config/weir.yaml in the source is an annotated sample.\n";

static const struct command {
    const char *name;
    enum wr_command command;
    bool takes_config;
} commands[] = {
    {"run", WR_COMMAND_RUN, true},        {"check", WR_COMMAND_CHECK, true},
    {"dump", WR_COMMAND_DUMP, true},      {"health", WR_COMMAND_HEALTH, true},
    {"schema", WR_COMMAND_SCHEMA, false}, {"version", WR_COMMAND_VERSION, false},
    {"help", WR_COMMAND_HELP, false},     {"--version", WR_COMMAND_VERSION, false},
};

static bool is_help(const char *word)
{
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

static const struct command *find_command(const char *word)
{
    for (size_t i = 0; i < WR_COUNT_OF(commands); i++) {
        if (strcmp(word, commands[i].name) == 0)
            return &commands[i];
    }
    return NULL;
}

static const char *nearest_command(const char *word)
{
    const char *nearest = NULL;
    unsigned least = GUESS_DISTANCE + 1;
    for (size_t i = 0; i < WR_COUNT_OF(commands); i++) {
        unsigned distance =
            wr_value_distance(wr_str_from(word), wr_str_from(commands[i].name), GUESS_DISTANCE + 1);
        if (distance < least) {
            least = distance;
            nearest = commands[i].name;
        }
    }
    return nearest;
}

static bool unknown_command(const char *word, char *error)
{
    const char *nearest = nearest_command(word);
    if (nearest != NULL)
        (void)snprintf(error, WR_ARGS_ERROR, "no command \"%.64s\"; did you mean \"%s\"?", word,
                       nearest);
    else
        (void)snprintf(
            error, WR_ARGS_ERROR,
            "no command \"%.64s\"; there are run, check, dump, health, schema, version, help",
            word);
    return false;
}

/* The value when ARGV[*at] is the option: "-c FILE", "-cFILE", "--config FILE", "--config=FILE". NULL: another word, or an
 * option without its value. */
static const char *config_value(int argc, char *const argv[], int *at)
{
    static const char longer[] = "--config=";
    const char *word = argv[*at];
    if (strcmp(word, "-c") == 0 || strcmp(word, "--config") == 0)
        return *at + 1 < argc ? argv[++*at] : NULL;
    if (strncmp(word, longer, sizeof(longer) - 1) == 0)
        return word + sizeof(longer) - 1;
    return word[0] == '-' && word[1] == 'c' ? word + 2 : NULL;
}

static bool parse_options(int argc, char *const argv[], const struct command *command,
                          struct wr_args *out, char *error)
{
    for (int i = 2; i < argc; i++) {
        if (is_help(argv[i])) {
            out->command = WR_COMMAND_HELP;
            return true;
        }
        const char *word = argv[i];
        if (command->command == WR_COMMAND_SCHEMA && strcmp(word, "--json") == 0) {
            out->command = WR_COMMAND_SCHEMA_JSON;
            continue;
        }
        const char *config = command->takes_config ? config_value(argc, argv, &i) : NULL;
        bool bare = strcmp(word, "-c") == 0 || strcmp(word, "--config") == 0;
        if (config == NULL && command->takes_config && bare) {
            (void)snprintf(error, WR_ARGS_ERROR, "\"%s\" wants the name of a file", word);
            return false;
        }
        if (config == NULL || config[0] == '\0') {
            (void)snprintf(error, WR_ARGS_ERROR, "weir %s takes %s; \"%.64s\" is not that",
                           command->name, command->takes_config ? "-c FILE" : "nothing", word);
            return false;
        }
        if (out->config != NULL) {
            (void)snprintf(error, WR_ARGS_ERROR, "one -c only: \"%.64s\" is the second", config);
            return false;
        }
        out->config = config;
    }
    if (command->takes_config && out->config == NULL) {
        (void)snprintf(error, WR_ARGS_ERROR,
                       "which configuration? weir %s -c FILE, or -c - for standard input",
                       command->name);
        return false;
    }
    return true;
}

bool wr_args_parse(int argc, char *const argv[], struct wr_args *out, char error[WR_ARGS_ERROR])
{
    *out = (struct wr_args){.command = WR_COMMAND_HELP};
    if (argc < 2) {
        (void)snprintf(error, WR_ARGS_ERROR, "what is to be done?");
        return false;
    }
    if (is_help(argv[1]))
        return true;
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1], error);
    out->command = command->command;
    return command->command == WR_COMMAND_HELP || parse_options(argc, argv, command, out, error);
}
