/* weir-probe: what established connections and new ones feel while something else goes on.
 *
 * Keep-alive TLS connections send small GETs at one fixed rate, each when its time has come. Latency counts from that time, not from when
 * the request could be sent at last: who waits for a connection to be free waits too. Besides, --connect-every opens a fresh connection
 * of a patient client now and then: latency from its scheduled time to its finished handshake.
 *
 * Every sample is a line of standard output: the second it was due (CLOCK_MONOTONIC), what it was, milliseconds, how it went.
 * Ends with --seconds, or with the end of standard input when that is a pipe; then what is still unanswered is "lost". */
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/probe.h"
#include "support/net.h"

static void usage(void)
{
    (void)fprintf(stderr,
                  "weir-probe [options] PORT      (of 127.0.0.1)\n"
                  "  --connections N      established ones (20)\n"
                  "  --rate R             requests a second on all of them together (200)\n"
                  "  --get PATH           (/small)\n"
                  "  --connect-every MS   a fresh connection so often (never)\n"
                  "  --patience MS        of a fresh connection (60000)\n"
                  "  --seconds S          (until standard input ends)\n"
                  "  --realtime           before everyone else on this core, if allowed to\n");
    exit(2);
}

static void become_realtime(void)
{
    struct sched_param most = {.sched_priority = 1};

    if (sched_setscheduler(0, SCHED_FIFO, &most) != 0)
        (void)fprintf(stderr,
                      "probe: may not run in real time, others on this core are in its way\n");
}

static unsigned long number(const char *text, unsigned long most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || value > most)
        usage();
    return value;
}

static void parse_one(struct probe_options *options, int option, const char *value)
{
    if (option == 'n')
        options->connections = (unsigned)number(value, 10000);
    else if (option == 'r')
        options->rate = strtod(value, NULL);
    else if (option == 'g')
        options->path = value;
    else if (option == 'c')
        options->connect_every = number(value, 1000000) * 1000;
    else if (option == 'p')
        options->patience = number(value, 1000000) * 1000;
    else if (option == 's')
        options->seconds = strtod(value, NULL);
    else if (option == 'R')
        become_realtime();
    else
        usage();
}

static struct probe_options parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"connections", required_argument, NULL, 'n'},
        {"rate", required_argument, NULL, 'r'},
        {"get", required_argument, NULL, 'g'},
        {"connect-every", required_argument, NULL, 'c'},
        {"patience", required_argument, NULL, 'p'},
        {"seconds", required_argument, NULL, 's'},
        {"realtime", no_argument, NULL, 'R'},
        {NULL, 0, NULL, 0},
    };
    struct probe_options options = {
        .connections = 20, .rate = 200, .path = "/small", .patience = 60000000};

    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;)
        parse_one(&options, o, optarg);
    if (optind != argc - 1 || options.rate < 0)
        usage();
    options.port = (uint16_t)number(argv[optind], UINT16_MAX);
    return options;
}

int main(int argc, char **argv)
{
    struct probe_options options = parse(argc, argv);

    (void)signal(SIGPIPE, SIG_IGN);
    probe_run(&options);
    return 0;
}
