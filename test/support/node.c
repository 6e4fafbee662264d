#include "support/node.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/command.h"

static char *packages(struct weir *weir)
{
    char *folder;
    int status =
        command_run(20, &folder, "command -v node >/dev/null && lib/third_party/node_modules find");

    folder[strcspn(folder, "\n")] = '\0';
    if (status != 0) {
        weir_stop(weir);
        cr_skip_test("node or its packages are not installed: lib/third_party/setup");
    }
    return folder;
}

void node_run(struct weir *weir, int seconds, const char *script, int port, const char *security,
              const char *name)
{
    char *output;
    char *folder = packages(weir);
    int status = command_run(seconds * weir_slowness(), &output,
                             "NODE_PATH='%s' node test/e2e/node/%s '%s' %d %s %s", folder, script,
                             weir_dir(weir), port, security, name);
    char *log = status == 0 ? NULL : weir_file(weir, "access.log");

    cr_expect(status == 0 && strstr(output, "passed\n"), "%s %s, %s: ended with %d\n%s\n%.4000s",
              script, security, name, status, output, log ? log : "");
    free(log);
    free(output);
    free(folder);
}
