/* weir-storm: an open-loop client of TLS servers. Connections begin at a fixed rate, whatever becomes of them; each is accounted for.
 *
 * When the tool itself is behind, "offered" is what was really begun, "late_ms" how far behind that was, "unbegun" what was due and
 * never begun. With more connections open than a process has descriptors for, more processes are needed (--processes): one that has
 * none left begins the next when one is free, and is late.
 *
 * Prints one line of JSON; with --series, what happened in each 100 ms goes to a file. */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm/storm.h"
#include "storm/ticket.h"
#include "support/net.h"

#define PROCESSES_MOST 64
#define DESCRIPTORS_ELSEWHERE 32
#define START_USEC 20000 /* until all processes are there */

struct command {
    struct storm_options storm;
    const char *path;
    const char *series;
};

static void usage(void)
{
    (void)fprintf(
        stderr,
        "weir-storm [options] PORT      (of 127.0.0.1)\n"
        "  --rate R            connections a second (1000); 0: as fast as it goes\n"
        "  --seconds S         how long connections begin (5, or no end with --connections)\n"
        "  --connections N     how many begin\n"
        "  --patience MS       from connect() to the finished handshake (5000); 0: for ever\n"
        "  --leave rst|fin     how one goes that is out of patience (rst)\n"
        "  --resume-share F    of the connections that offer a ticket (0)\n"
        "  --get PATH          request that brings the ticket (/small)\n"
        "  --silent            connect and say nothing\n"
        "  --stall             say nothing more after the ClientHello\n"
        "  --sources N         loopback addresses, 127.1.0.1 and up (1000)\n"
        "  --open N            connections open at a time in a process, at most\n"
        "  --processes N       (1)\n"
        "  --series FILE       what happened in each 100 ms\n");
    exit(2);
}

static const struct option known[] = {
    {"rate", required_argument, NULL, 'r'},
    {"seconds", required_argument, NULL, 's'},
    {"connections", required_argument, NULL, 'n'},
    {"patience", required_argument, NULL, 'p'},
    {"leave", required_argument, NULL, 'l'},
    {"resume-share", required_argument, NULL, 'R'},
    {"get", required_argument, NULL, 'g'},
    {"silent", no_argument, NULL, 'S'},
    {"stall", no_argument, NULL, 'T'},
    {"sources", required_argument, NULL, 'a'},
    {"open", required_argument, NULL, 'o'},
    {"processes", required_argument, NULL, 'P'},
    {"series", required_argument, NULL, 'j'},
    {NULL, 0, NULL, 0},
};

static unsigned number(const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || value < least || value > most)
        usage();
    return (unsigned)value;
}

static void parse_one(struct command *command, int option, const char *value)
{
    struct storm_options *storm = &command->storm;

    if (option == 'r')
        storm->rate = strtod(value, NULL);
    else if (option == 's')
        storm->seconds = strtod(value, NULL);
    else if (option == 'n')
        storm->count = number(value, 1, 100000000);
    else if (option == 'p')
        storm->patience = (uint64_t)number(value, 0, 1000000000) * 1000;
    else if (option == 'l')
        storm->leave_with_fin = strcmp(value, "fin") == 0;
    else if (option == 'R')
        storm->resume_share = strtod(value, NULL);
    else if (option == 'g')
        command->path = value;
    else if (option == 'S')
        storm->silent = true;
    else if (option == 'T')
        storm->stall = true;
    else if (option == 'a')
        storm->sources = number(value, 1, 60000);
    else if (option == 'o')
        storm->most_open = number(value, 1, 1000000);
    else if (option == 'P')
        storm->processes = number(value, 1, PROCESSES_MOST);
    else if (option == 'j')
        command->series = value;
    else
        usage();
}

static struct command parse(int argc, char **argv)
{
    struct command command = {
        .storm = {.rate = 1000,
                  .patience = 5000000,
                  .sources = 1000,
                  .processes = 1,
                  .most_open = 1000000},
        .path = "/small",
    };
    struct storm_options *storm = &command.storm;

    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;)
        parse_one(&command, o, optarg);
    if (optind != argc - 1 || storm->rate < 0 || storm->seconds < 0 || storm->resume_share < 0 ||
        storm->resume_share > 1)
        usage();
    storm->port = (uint16_t)number(argv[optind], 1, UINT16_MAX);
    if (!storm->count && !(storm->seconds > 0))
        storm->seconds = 5;
    return command;
}

static void raise_limits(struct storm_options *storm)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        die("getrlimit");
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur <= DESCRIPTORS_ELSEWHERE)
        die("descriptors");
    if (storm->most_open > files.rlim_cur - DESCRIPTORS_ELSEWHERE)
        storm->most_open = (unsigned)files.rlim_cur - DESCRIPTORS_ELSEWHERE;
}

static void fork_all(const struct storm_options *storm, const struct offer offers[CLAIM__COUNT],
                     uint64_t start, struct account *accounts)
{
    pid_t children[PROCESSES_MOST];
    bool well = true;

    for (unsigned i = 1; i < storm->processes; i++) {
        children[i] = fork();
        if (children[i] < 0)
            die("fork");
        if (children[i] == 0) {
            storm_run(storm, offers, i, start, &accounts[i]);
            _exit(0);
        }
    }
    storm_run(storm, offers, 0, start, &accounts[0]);
    for (unsigned i = 1; i < storm->processes; i++) {
        int status;
        well = waitpid(children[i], &status, 0) == children[i] && status == 0 && well;
    }
    if (!well) {
        (void)fprintf(stderr, "storm: a process of it failed\n");
        exit(1);
    }
    for (unsigned i = 1; i < storm->processes; i++)
        account_add(&accounts[0], &accounts[i]);
}

static void write_series(const char *path, const struct account *account, uint64_t start)
{
    FILE *file = fopen(path, "w");

    if (!file)
        die(path);
    account_print_series(account, start, file);
    if (fclose(file) != 0)
        die(path);
}

int main(int argc, char **argv)
{
    struct command command = parse(argc, argv);
    struct storm_options *storm = &command.storm;
    struct resumption resumption;
    static struct offer offers[CLAIM__COUNT];
    size_t size = sizeof(struct account) * storm->processes;
    struct account *accounts =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (accounts == MAP_FAILED)
        die("memory");
    (void)signal(SIGPIPE, SIG_IGN);
    raise_limits(storm);
    offer_make(&offers[CLAIM_FULL], NULL);
    if (storm->resume_share > 0) {
        ticket_fetch(storm->port, command.path, &resumption);
        offer_make(&offers[CLAIM_RESUME], &resumption);
    }
    uint64_t start = now_usec() + START_USEC;
    fork_all(storm, offers, start, accounts);
    account_print(&accounts[0], start, storm->rate, stdout);
    if (command.series)
        write_series(command.series, &accounts[0], start);
    return munmap(accounts, size) == 0 ? 0 : 1;
}
