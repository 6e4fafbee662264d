/* The dashboard, in Chromium. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/node.h"
#include "support/weir.h"

#define BROWSER "/usr/bin/chromium"

static void look(const char *name)
{
    char number[16];
    if (access(BROWSER, X_OK) != 0)
        cr_skip_test(BROWSER " is not installed");
    struct weir *weir =
        weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                   "listeners:\n"
                   "  - name: edge\n"
                   "    bind: 127.0.0.1:0\n"
                   "    routes:\n"
                   "      - {match: {path: /dead}, cluster: dead}\n"
                   "      - {respond: {body: hello}}\n"
                   "  - {name: quiet, bind: 127.0.0.1:0, routes: [{cluster: dead}]}\n"
                   "clusters: [{name: dead, endpoints: [\"unix:nobody.sock\"]}]\n");
    (void)snprintf(number, sizeof(number), "%d", weir_port(weir, "edge"));
    cr_assert_eq(setenv("EDGE_PORT", number, 1), 0);
    (void)snprintf(number, sizeof(number), "%d", (int)weir_pid(weir));
    cr_assert_eq(setenv("WEIR_PID", number, 1), 0);
    node_run(weir, 50, "dashboard.js", weir_port(weir, "admin"), "plain", name);
    weir_stop(weir);
}

Test(dashboard, shows_what_goes_on, .timeout = 600)
{
    look("live");
}

Test(dashboard, fits_a_phone, .timeout = 600)
{
    look("phone");
}

Test(dashboard, says_when_weir_is_gone, .timeout = 600)
{
    look("gone");
}
